"""Pictures of PIL, and what IPython shows as a picture but nobody could see."""
from __future__ import annotations

import builtins
import io
import sys

from . import display, reprs

__builtins__ = dict(vars(builtins))

MOST_PIXELS = 4_000_000  # more are scaled down
PNG_MODES = frozenset(("1", "L", "LA", "P", "RGB", "RGBA", "I;16"))


def adopt(name: str, image_show) -> None:
    """PIL.ImageShow was just loaded: Image.show() asks its viewers, the first one first."""

    class Viewer(image_show.Viewer):
        def show(self, image, **options) -> int:
            display.publish(display.DISPLAY, picture(image))
            return 1

    image_show.register(Viewer(), 0)


def bundle(value: object) -> dict | None:
    images = sys.modules.get("PIL.Image")
    if images is not None and isinstance(value, images.Image):
        return picture(value)
    video = getattr(sys.modules.get("IPython.core.display"), "Video", None)
    if video is not None and isinstance(value, video):
        return {"text/plain": "[a video is not shown: save it as a file in the workspace, and fetch it from there]"}
    return None


def more(value: object) -> dict:
    return {}


def picture(image) -> dict:
    """As PNG; one that was read from a JPEG as that too."""
    data = {"text/plain": reprs.plain(image)}
    if not image.width or not image.height:
        return data
    shown = image
    if image.width * image.height > MOST_PIXELS:
        scale = (MOST_PIXELS / (image.width * image.height)) ** 0.5
        shown = image.resize((max(1, int(image.width * scale)), max(1, int(image.height * scale))))
        data["text/plain"] += "\n[shown at %d x %d pixels]" % shown.size
    data["image/png"] = encoded(shown if shown.mode in PNG_MODES else as_rgb(shown), "png")
    if image.format == "JPEG" or len(data["image/png"]) > display.MOST_ITEM:
        data["image/jpeg"] = encoded(shown if shown.mode in ("L", "RGB") else as_rgb(shown).convert("RGB"), "jpeg")
        if len(data["image/png"]) > display.MOST_ITEM:
            del data["image/png"]
    return data


def as_rgb(image):
    if image.mode in ("F", "I"):  # without a scale of their own
        low, high = image.getextrema()
        factor = 255 / (high - low) if high > low else 1
        return image.convert("F").point(lambda value: value * factor - low * factor).convert("L")
    return image.convert("RGBA" if image.mode in ("PA", "La", "RGBa") else "RGB")


def encoded(image, name: str) -> bytes:
    file = io.BytesIO()
    image.save(file, name)
    return file.getvalue()
