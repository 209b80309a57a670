"""The lab: races AdaMomentum against its peers on real problems. Imports the library, never the
other way round."""
