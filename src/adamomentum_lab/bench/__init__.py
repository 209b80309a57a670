"""Step time and memory of AdaMomentum beside its peers."""
