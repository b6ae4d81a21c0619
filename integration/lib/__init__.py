"""What the end-to-end tests and the demonstration share: commands whose output lines are events,
nodes as Linux namespaces, name servers, and environments as platforms give them."""
