"""Generated corpus of dequantized-weight spellings with an independent NumPy reference.

``forms.catalog.CATALOG`` lists the instances, ``DERIVED`` the same programs after stock passes; ``entry.build()`` gives
a ``Program`` with text, inputs, reference outputs and error bounds; ``entry.vary(rng)`` is another instance of the same
form. ``python -m forms.dump DIR`` writes them as files.
"""
