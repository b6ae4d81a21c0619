"""What scripts/bench measured, as a picture: an SVG of our own text."""

import html

NAMES = ("rankshim", "tini-static", "catatonit")
COLOURS = ("#1a7f5a", "#9aa4ad", "#c3c9ce")
WIDTH, PANEL, COLUMNS = 760, 110, 2
NAME_WIDTH, VALUE_WIDTH = 76, 84  # what a bar leaves free on its left and on its right
BAR, STEP = 14, 22


def picture(figures, caption):
    """The text of an SVG. Of `figures`, each is (what, unit, the three programs' numbers); less is better in each."""
    rows = -(-len(figures) // COLUMNS)
    height = 34 + rows * PANEL + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" rx="6" fill="#ffffff"/>',
        text(16, 24, "rankshim as PID 1, beside two other inits: shorter is better", weight="bold"),
    ]
    for number, figure in enumerate(figures):
        column, row = number % COLUMNS, number // COLUMNS
        parts += panel(16 + column * WIDTH // COLUMNS, 34 + row * PANEL, figure)
    parts.append(text(16, height - 12, caption, fill="#57606a", size=10))
    return "\n".join([*parts, "</svg>"]) + "\n"


def panel(left, top, figure):
    """One figure: its name and a bar for each program."""
    what, unit, numbers = figure
    longest = max(*numbers, 1)
    room = WIDTH // COLUMNS - 32 - NAME_WIDTH - VALUE_WIDTH
    parts = [text(left, top + 22, what)]
    for index, (name, colour, number) in enumerate(zip(NAMES, COLOURS, numbers)):
        y = top + 32 + index * STEP
        length = round(room * max(number, 0) / longest, 1)
        parts += [
            text(left, y + 11, name, fill="#57606a"),
            f'<rect x="{left + NAME_WIDTH}" y="{y}" width="{length}" height="{BAR}" fill="{colour}"/>',
            text(left + NAME_WIDTH + length + 6, y + 11, f"{number:,.0f} {unit}".strip()),
        ]
    return parts


def text(x, y, words, *, fill="#1f2328", size=12, weight="normal"):
    return (f'<text x="{x:g}" y="{y:g}" fill="{fill}" font-size="{size}" font-weight="{weight}">'
            f"{html.escape(words)}</text>")
