// The conformance suites cannot send a key. This adds one, and otherwise passes on what comes as it came: Host, Origin
// and disconnects included.
import http from "node:http";

export function startKeyProxy(target, key, at) {
  const { hostname, port } = new URL(target);
  const server = http.createServer((request, response) => {
    const headers = { ...request.headers, authorization: `Bearer ${key}` };
    const onward = http.request({ hostname, port, method: request.method, path: request.url, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
      answer.on("error", () => response.destroy());
    });
    onward.on("error", () => response.destroy());
    response.on("close", () => onward.destroy());
    request.pipe(onward);
  });
  return new Promise((resolve) => server.listen(at, "127.0.0.1", () => resolve(server)));
}
