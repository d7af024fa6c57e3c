"""Where the engine's records go before a reply is sent."""
