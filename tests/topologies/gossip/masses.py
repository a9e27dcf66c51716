"""Adds up the mass of push-sum, of the living and the dead."""


def total_mass(accounts):
    """Return the mass that is held in some accounts, or under way between them."""
    held = sum(account.mass + account.waiting for account in accounts)
    # A push that arrived and was not confirmed is counted where it arrived.
    flying = sum(
        push.mass
        for account in accounts
        for push in account.under_way
        if not any(other.has_arrived(push.transfer) for other in accounts)
    )
    return held + flying
