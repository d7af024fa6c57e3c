"""The clients' sockets in processes of their own, which pass on what they carry over a link: docs/link.md."""
