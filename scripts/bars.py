"""Measured figures as a picture, an SVG of our own text."""

import html

FIRST, OTHERS = "#1a7f5a", ("#9aa4ad", "#c3c9ce")
WIDTH, COLUMNS = 760, 2
NAME_WIDTH, VALUE_WIDTH = 76, 84  # what a bar leaves free on its left and on its right
BAR, STEP = 14, 22


def picture(title, names, colours, figures, caption):
    """The text of an SVG. Of `figures`, each is (what, unit, a number for each of the names)."""
    rows, panel_height = -(-len(figures) // COLUMNS), 44 + STEP * len(names)
    height = 34 + rows * panel_height + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" rx="6" fill="#ffffff"/>',
        text(16, 24, title, weight="bold"),
    ]
    for number, figure in enumerate(figures):
        column, row = number % COLUMNS, number // COLUMNS
        parts += panel(16 + column * WIDTH // COLUMNS, 34 + row * panel_height, names, colours, figure)
    parts.append(text(16, height - 12, caption, fill="#57606a", size=10))
    return "\n".join([*parts, "</svg>"]) + "\n"


def panel(left, top, names, colours, figure):
    """One figure: its name and a bar for each number."""
    what, unit, numbers = figure
    longest = max(*numbers, 1)
    room = WIDTH // COLUMNS - 32 - NAME_WIDTH - VALUE_WIDTH
    parts = [text(left, top + 22, what)]
    for index, (name, colour, number) in enumerate(zip(names, colours, numbers, strict=True)):
        y = top + 32 + index * STEP
        length = round(room * max(number, 0) / longest, 1)
        shown = f"{number:,.0f}" if number >= 20 else f"{number:.1f}".removesuffix(".0")
        parts += [
            text(left, y + 11, name, fill="#57606a"),
            f'<rect x="{left + NAME_WIDTH}" y="{y}" width="{length}" height="{BAR}" fill="{colour}"/>',
            text(left + NAME_WIDTH + length + 6, y + 11, f"{shown} {unit}".strip()),
        ]
    return parts


def text(x, y, words, *, fill="#1f2328", size=12, weight="normal"):
    return (f'<text x="{x:g}" y="{y:g}" fill="{fill}" font-size="{size}" font-weight="{weight}">'
            f"{html.escape(words)}</text>")
