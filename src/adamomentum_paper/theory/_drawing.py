"""Names and colour-blind safe colours of the methods, the same in all figures."""

NAMES = {
    "adamomentum": "AdaMomentum",
    "adam": "Adam",
    "adam-translated": "Adam, translated lr",
    "eadam": "Adam, eps inside",
    "adamomentum-outer-eps": "AdaMomentum, eps outside",
    "sgdm": "SGDM",
}
COLOURS = {
    "adamomentum": "#0072b2",
    "adam": "#d55e00",
    "adam-translated": "#cc79a7",
    "eadam": "#e69f00",
    "adamomentum-outer-eps": "#56b4e9",
    "sgdm": "#009e73",
}
