"""Finds out quickly whether the guard has anything to do: loads nothing but the driver, creates nothing, and waits for no lock."""

from typing import Final

import apsw

SESSION: Final = """SELECT conversations.id, conversations.tenant_id FROM conversations
    JOIN tenants ON tenants.id = conversations.tenant_id
    WHERE tenants.name = 'local' AND conversations.key = ? AND conversations.deleted_at = 0"""
OPEN_TURNS: Final = f"""SELECT 1 FROM turns JOIN ({SESSION}) AS session ON session.id = turns.conversation_id
    AND session.tenant_id = turns.tenant_id WHERE turns.ended_at = 0"""
OPEN_ITEMS: Final = f"""{OPEN_TURNS} AND turns.client_agent = ? AND (turns.refusals > 0 OR EXISTS (SELECT 1 FROM todos
    WHERE todos.tenant_id = turns.tenant_id AND todos.turn_id = turns.id AND todos.completed_at = 0))"""
RULES: Final = """SELECT 1 FROM guard_rules JOIN tenants ON tenants.id = guard_rules.tenant_id
    WHERE tenants.name = 'local' AND guard_rules.folder = ?"""
OPEN_IN_FOLDER: Final = """SELECT 1 FROM conversations JOIN tenants ON tenants.id = conversations.tenant_id
    JOIN todos ON todos.tenant_id = conversations.tenant_id AND todos.conversation_id = conversations.id
    WHERE tenants.name = 'local' AND conversations.client <> '' AND conversations.folder = ? AND conversations.deleted_at = 0
    AND todos.completed_at = 0"""


class GuardProbe:
    """One look at an SQLite database. Raises OSError if there is none, or if it cannot be read now."""

    def __init__(self, path: str) -> None:
        try:
            self.connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
        except apsw.Error as error:
            raise OSError(str(error)) from error

    def is_any(self, *queries: tuple[str, tuple[str, ...]]) -> bool:
        try:
            return any(self.connection.execute(f"{sql} LIMIT 1", values).fetchall() for sql, values in queries)
        except apsw.Error as error:
            raise OSError(str(error)) from error
        finally:
            self.connection.close()

    def may_tell(self, folder: str) -> bool:
        """Whether something is open in a folder, or it has rules."""
        return self.is_any((RULES, (folder,)), (OPEN_IN_FOLDER, (folder,)))

    def may_refuse(self, key: str, agent: str, folder: str) -> bool:
        """Whether a session, or one of its sub-agents, may have to go on."""
        rules = () if agent else ((RULES, (folder,)),)
        return self.is_any((OPEN_ITEMS, (key, agent)), *rules)

    def has_plan(self, key: str) -> bool:
        """Whether a session has an unfinished plan."""
        return self.is_any((OPEN_TURNS, (key,)))
