"""The only SQL: named statements per dialect, migrations, transactions."""
