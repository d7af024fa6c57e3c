"""What pages show and do, as JSON under ``/api/v1``.

From a request down: `routes` (which operation), `table` (all of them), `queries` and `actions`, which do them;
`operations` says what one is, and `document` writes ``openapi.json`` from the same table.
"""
