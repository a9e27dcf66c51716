"""Training without a server: peers that train what they have, and mix what they learn with others."""
