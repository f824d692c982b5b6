"""`sandgauge report`: files of spans in, and out what each sandbox was asked for, was sent, got and used.

One way: `reading` (files, documents, spans) -> `merging` (what belongs together, each repeat once) -> `findings` and
`sizing` -> `rendering`. Imports the telemetry contract and nothing else of the project.
"""
