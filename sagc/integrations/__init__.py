"""One module per training framework, each the only importer of that framework; never imported by `sagc`."""
