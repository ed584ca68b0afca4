"""A year of sales of a small shop with four branches: a summary table, and a plot in the working directory."""
import math
import random

BRANCHES = {"Lisbon": 42, "Kraków": 35, "Osaka": 51, "Quito": 28}  # sales in an average month, in thousands
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
COLOURS = ["#2f6f9f", "#e08a2e", "#3f9a6b", "#a8518a"]


def sales(branch: str, month: int) -> float:
    """Made up, but the same each time: summer is good, December better, and there is some luck."""
    luck = random.Random(f"{branch} {month}").gauss(1, 0.05)
    return BRANCHES[branch] * (1 + 0.2 * math.sin(month / 12 * math.pi)) * (1.25 if month == 11 else 1) * luck


def with_pandas() -> None:
    frame = pd.DataFrame([(branch, month, sales(branch, i)) for branch in BRANCHES for i, month in enumerate(MONTHS)],
                         columns=["branch", "month", "sales"])
    summary = frame.groupby("branch", sort=False)["sales"].agg(total="sum", average="mean", best="max")
    summary["best month"] = frame.loc[frame.groupby("branch", sort=False)["sales"].idxmax(), "month"].to_numpy()
    print(summary.round(1).to_string())

    figure, axes = plt.subplots(figsize=(9, 4.5), layout="constrained")
    table = frame.pivot(index="month", columns="branch", values="sales").loc[MONTHS, list(BRANCHES)]
    table.plot(ax=axes, color=COLOURS, marker="o", markersize=4, linewidth=2)
    axes.set_title("Sales by branch", loc="left", fontsize=14, fontweight="bold")
    axes.set(xlabel="", ylabel="thousand euros", ylim=(0, None), xticks=range(12), xticklabels=MONTHS)
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(title=None, frameon=False, ncols=4, loc="lower left")
    figure.savefig("sales.png", dpi=150)
    print("\nThe plot is in sales.png")


def without_pandas() -> None:
    print("pandas and matplotlib are not here (hutch template build default brings them): plain Python instead\n")
    lines = []
    for branch, colour in zip(BRANCHES, COLOURS):
        values = [sales(branch, month) for month in range(12)]
        print(f"{branch:<8} total {sum(values):6.1f}   best month {MONTHS[values.index(max(values))]}")
        points = " ".join(f"{40 + 55 * i},{340 - 4 * value:.0f}" for i, value in enumerate(values))
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="3"/>'
                     f'<text x="655" y="{344 - 4 * values[-1]:.0f}" fill="{colour}">{branch}</text>')
    lines += [f'<text x="{28 + 55 * i}" y="365" fill="#555">{month}</text>' for i, month in enumerate(MONTHS)]
    with open("sales.svg", "w", encoding="utf-8") as file:
        file.write('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 380" font-family="sans-serif" font-size="13">'
                   '<rect width="720" height="380" fill="white"/><path d="M30 340H645" stroke="#999"/>'
                   f'{"".join(lines)}</svg>\n')
    print("\nThe plot is in sales.svg")


try:
    import matplotlib.pyplot as plt
    import pandas as pd
except ImportError:
    without_pandas()
else:
    with_pandas()
