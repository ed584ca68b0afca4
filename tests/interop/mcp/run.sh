#!/bin/sh
# Installs the suites beside the build, not here, and runs them: run.sh PATH_OF_HUTCH [conformance|inspector|clients]...
set -eu
here=$(cd "$(dirname "$0")" && pwd)
hutch=$(realpath "$1")
shift
work=${HUTCH_INTEROP_DIR:-$(dirname "$hutch")/../interop/mcp}
mkdir -p "$work"
cp "$here"/*.mjs "$here"/*.yml "$here"/package.json "$work"
cd "$work"
if [ ! -e installed ] || ! cmp -s package.json installed; then
  npm install --no-audit --no-fund --loglevel=error
  cp package.json installed
fi
exec ./node_modules/.bin/node run.mjs "$hutch" "$@"
