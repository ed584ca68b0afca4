"""Finishes the tree of a template. The builder runs it with the tree's own interpreter, HOME set to the skeleton.

    fonts ENV DIRECTORY...     find a font that covers CJK, write matplotlibrc and the font cache; exit code 3: none found
    draw                       draw CJK text; a missing glyph is an error
    settle ENV INSIDE          let the font cache name files by where the sandbox shows them
    preload MODULE...          import what the zygote will import; a thread that was started is an error
"""

import json
import os
import sys
import warnings

SAMPLE = "\u4e2d\u6587 \u306b\u307b\u3093 \ud55c\uad6d\uc5b4"  # Chinese, Japanese, Korean
NO_FONT = 3


def font_files(directories):
    for directory in directories:
        for parent, _, names in os.walk(directory):
            for name in sorted(names):
                if name.lower().endswith((".otf", ".ttf", ".ttc")):
                    yield os.path.join(parent, name)


def covers_sample(path):
    from matplotlib import ft2font

    try:
        characters = ft2font.FT2Font(path).get_charmap()
    except Exception:  # a broken font file of the host is not ours to report
        return False
    return all(ord(c) in characters for c in SAMPLE if c != " ")


def preference(path):
    """Noto before others, sans before serif, regular before bold: the text face of charts."""
    name = os.path.basename(path).lower()
    return ("cjk" not in name, "noto" not in name, "sans" not in name, "mono" in name, "regular" not in name, name)


def cache_file():
    from matplotlib import font_manager

    directory = os.path.join(os.environ["HOME"], ".cache", "matplotlib")
    os.makedirs(directory, exist_ok=True)
    return os.path.join(directory, f"fontlist-v{font_manager.FontManager.__version__}.json")


def write_font_cache(directories, cjk_path):
    """Lists matplotlib's own fonts and those in the directories, none that only this user can see. Returns the family."""
    from matplotlib import font_manager

    find = font_manager.findSystemFonts
    # Called without paths it means the fonts of this host and user; with paths, those that matplotlib brings.
    font_manager.findSystemFonts = lambda paths=None, fontext="ttf": find(paths, fontext=fontext) if paths else []
    manager = font_manager.FontManager()
    for path in font_files(directories):
        try:
            manager.addfont(path)
        except Exception:  # matplotlib leaves out what it cannot read, too
            pass
    font_manager.json_dump(manager, cache_file())
    cjk = next((font for font in manager.ttflist if font.fname == cjk_path), None)
    if cjk is None:
        return ""
    if not any(font.name == cjk.name and font.weight in ("bold", 700) for font in manager.ttflist):
        # Bold CJK text is drawn with the regular face: without this entry matplotlib says so for every chart.
        with open(cache_file(), encoding="utf-8") as file:
            content = json.load(file)
        regular = next(font for font in content["ttflist"] if font["fname"] == cjk_path)
        content["ttflist"].append(dict(regular, weight=700))
        with open(cache_file(), "w", encoding="utf-8") as file:
            json.dump(content, file)
    return cjk.name


def write_settings(path, family):
    families = ["DejaVu Sans"] + ([family] if family else [])
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write("# Written by `hutch template build`.\nbackend: Agg\n")
        file.write(f"font.family: {', '.join(families)}\n")


def fonts(env, *directories):
    os.makedirs(os.path.join(os.environ["HOME"], ".config", "matplotlib"), exist_ok=True)
    cjk_path = next((path for path in sorted(font_files(directories), key=preference) if covers_sample(path)), None)
    family = write_font_cache(directories, cjk_path)
    write_settings(os.path.join(env, "etc", "matplotlibrc"), family)
    print(family)
    return 0 if family else NO_FONT


def draw():
    import io
    import logging

    import matplotlib.pyplot as plt

    complaints = []
    logging.getLogger("matplotlib").addHandler(logging.Handler(logging.WARNING))
    logging.getLogger("matplotlib").handlers[-1].emit = lambda record: complaints.append(record.getMessage())
    warnings.simplefilter("error")
    figure, axes = plt.subplots()
    axes.set_title(SAMPLE, fontweight="bold")
    axes.set_xlabel(SAMPLE)
    axes.plot([-1, 1], label=SAMPLE)
    axes.legend()
    figure.savefig(io.BytesIO(), format="png")
    return "; ".join(dict.fromkeys(complaints)) or 0


def settle(env, inside):
    with open(cache_file(), encoding="utf-8") as file:
        content = json.load(file)
    for font in content["ttflist"] + content["afmlist"]:
        if font["fname"].startswith(env + "/"):
            font["fname"] = inside + font["fname"][len(env) :]
    with open(cache_file(), "w", encoding="utf-8") as file:
        json.dump(content, file)
    return 0


def preload(*modules):
    for module in modules:
        try:
            __import__(module)
        except Exception as error:
            return f"cannot import {module}: {type(error).__name__}: {error}"
    threads = len(os.listdir("/proc/self/task"))
    return f"the preloaded modules started {threads - 1} threads; a zygote has one" if threads != 1 else 0


if __name__ == "__main__":
    sys.exit({"fonts": fonts, "draw": draw, "settle": settle, "preload": preload}[sys.argv[1]](*sys.argv[2:]))
