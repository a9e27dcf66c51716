"""A Flower app that times rounds; runs in `.venv-flower`, without Paceline."""
