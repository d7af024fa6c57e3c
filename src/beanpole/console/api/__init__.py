"""What pages show and do, as JSON under ``/api/v1``.

From a request down: `routes` (which operation), `table` (all of them), the modules that are named after what they are
about; `operations` (what one is) and `kinds` (types as JSON Schema, and values checked by them). `document` writes
``openapi.json`` from the same table.
"""
