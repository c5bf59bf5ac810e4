"""The shop's customers and products."""

from typing import Any, Final

FIRST_NAMES: Final = ("Ada", "Amira", "Björn", "Chen", "Elif", "Grace", "Ingrid", "José", "Kofi", "Linus")
LAST_NAMES: Final = ("Abe", "Berg", "Costa", "Haugen", "Ito", "Larsen", "Mensah", "Novak", "Osei", "Weiss")
CITIES: Final = ("Bergen", "Ghent", "Kraków", "Lisbon", "Lyon", "Oslo", "Porto", "Turku", "Vienna", "Zürich")
TAGS: Final = ("b2b", "gift-card", "newsletter", "vip")

# Name, price, attributes.
PRODUCTS: Final[tuple[tuple[str, str, dict[str, Any]], ...]] = (
    ("Enamel mug", "11.90", {"colour": "navy", "ml": 350}),
    ("Wool blanket", "89.00", {"colour": "moss", "cm": [130, 200]}),
    ("Oak stool", "149.50", {"wood": "oak", "kg": 4}),
    ("Linen apron", "34.00", {"colour": "sand"}),
    ("Chef's knife", "72.25", {"steel": "VG-10", "cm": 20}),
    ("Tea strainer", "8.40", {"steel": "18/10"}),
    ("Desk lamp", "119.00", {"colour": "black", "bulb": "E14"}),
    ("Field notebook", "6.75", {"pages": 96, "dotted": True}),
)
