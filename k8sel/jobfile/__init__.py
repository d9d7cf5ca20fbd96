"""From text to a checked job: read, decode, default and validate. Reaches no machine and no cluster."""
