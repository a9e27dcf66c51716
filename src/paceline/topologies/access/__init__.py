"""Who may do what at a host: roles, invitations, devices and their keys, and a record of all of it."""

from paceline.topologies.access.administration import (
    ADMIN_CALLS,
    Administration,
    AdminService,
    Invited,
    InviteTerms,
    Listed,
)
from paceline.topologies.access.audit import AuditedAccess, AuditLog
from paceline.topologies.access.host import HostAccess
from paceline.topologies.access.proofs import HTTP, HTTPS, Proof, prove
from paceline.topologies.access.roles import Right, Role

__all__ = [
    "ADMIN_CALLS",
    "HTTP",
    "HTTPS",
    "AdminService",
    "Administration",
    "AuditLog",
    "AuditedAccess",
    "HostAccess",
    "InviteTerms",
    "Invited",
    "Listed",
    "Proof",
    "Right",
    "Role",
    "prove",
]
