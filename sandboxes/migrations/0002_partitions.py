"""Turn sandboxes, events and decisions into tables partitioned by time, so that history is dropped, not deleted.

Django creates them plain in 0001; here each is made anew with the same columns, checks, indexes and foreign keys.
`sandboxes.partitions` makes and drops the daily partitions; the default partition keeps an insert from ever failing.
"""

from django.db import migrations

CONVERT = """
DO $body$
DECLARE
    definitions text[];
    definition text;
BEGIN
    SELECT array_agg(pg_get_indexdef(indexrelid)) INTO definitions
      FROM pg_index WHERE indrelid = '{table}'::regclass AND NOT indisprimary AND pg_get_indexdef(indexrelid) NOT LIKE '%%_like %%';
    SELECT definitions || array_agg(format('ALTER TABLE {table} ADD CONSTRAINT %%I %%s', conname, pg_get_constraintdef(oid))) INTO definitions
      FROM pg_constraint WHERE conrelid = '{table}'::regclass AND contype = 'f';
    ALTER TABLE {table} RENAME TO {table}_plain;
    CREATE TABLE {table} (LIKE {table}_plain INCLUDING DEFAULTS INCLUDING IDENTITY INCLUDING CONSTRAINTS, PRIMARY KEY (id, {key}))
      PARTITION BY RANGE ({key});
    DROP TABLE {table}_plain;
    FOREACH definition IN ARRAY definitions LOOP
        IF definition IS NOT NULL THEN EXECUTE definition; END IF;
    END LOOP;
    CREATE TABLE {table}_default PARTITION OF {table} DEFAULT;
END
$body$
""".replace("%%", "%")

LIVE = """
CREATE TABLE sandboxes_sandbox_live PARTITION OF sandboxes_sandbox FOR VALUES FROM ('9999-01-01') TO (MAXVALUE)
  WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05)
"""


class Migration(migrations.Migration):
    dependencies = [("sandboxes", "0001_initial")]

    operations = [
        migrations.RunSQL(CONVERT.format(table="sandboxes_sandbox", key="shelf"), migrations.RunSQL.noop),
        migrations.RunSQL(LIVE, migrations.RunSQL.noop),
        migrations.RunSQL(CONVERT.format(table="sandboxes_event", key="at"), migrations.RunSQL.noop),
        migrations.RunSQL(CONVERT.format(table="sandboxes_decision", key="at"), migrations.RunSQL.noop),
    ]
