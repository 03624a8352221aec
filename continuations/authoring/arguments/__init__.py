"""Arguments of tools: signatures, typed values, strict JSON."""
