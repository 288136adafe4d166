"""A Flower app that deploys a paota experiment."""
