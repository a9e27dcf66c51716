"""The smallest experiment: a value per seed, over two sizes."""

RUN = """\
from reproduction import About

ABOUT = About(figure="Nobody, Fig. 1", claim="Coins fall.", duration="no time", num_seeds=4, num_quick_seeds=2)

def run(seed, *, is_quick):
    for size in (1, 2) if is_quick else (1, 2, 3):
        yield {"size": size, "side": "heads", "value": size + seed / 10, "extra": None}

def measures(rows):
    return {"value, size 1": rows[0]["value"], **({"odd": 1.0} if rows[0]["seed"] == 1 else {})}
"""
PLOT = """\
from reproduction.style import add_legend, draw_curve, label, new_figure

def plot(rows):
    figure, [axes] = new_figure()
    draw_curve(axes, rows, x="size", y="value", name="coin")
    label(axes, x="size", y="value (s)")
    add_legend(figure, axes)
    return figure
"""
EXPECTED = """\
measure,unit,paper,low,high,source,note
"value, size 1",s,about 1,0.5,2,Fig. 1,a | note
odd,,,,,,
never,,3,3,3,,
"""


def write_coin(folder):
    folder.mkdir(parents=True)
    for name, text in {"README.md": "# Coin", "run.py": RUN, "plot.py": PLOT, "expected.csv": EXPECTED}.items():
        (folder / name).write_text(text)
