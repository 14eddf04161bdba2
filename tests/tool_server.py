"""A real MCP server for tests: a small address book whose state lasts as long as the process."""

from __future__ import annotations

import sys
from typing import Any

from mcp.server.mcpserver import MCPServer

PHONES = {"Ada": "17", "Bob": "23"}


def build() -> Any:
    server = MCPServer("book", log_level="CRITICAL")
    phones = dict(PHONES)

    @server.tool()
    def lookup(name: str) -> str:
        """The number of a person."""
        return phones[name]

    @server.tool()
    def store(name: str, number: str, twice: bool = False) -> str:
        """Keeps a number."""
        phones[name] = number * (2 if twice else 1)
        return f"kept {len(phones)}"

    @server.tool()
    def reset() -> str:
        """The book as it was."""
        phones.clear()
        phones.update(PHONES)
        return "done"

    return server


def app() -> Any:
    """The server as an ASGI application, on /mcp."""
    return build().streamable_http_app()


if __name__ == "__main__":
    if sys.argv[1:] == ["break"]:
        sys.exit("broken")
    build().run("stdio")
