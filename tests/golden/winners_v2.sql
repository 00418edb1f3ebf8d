-- winners.db of schema version 2 as its first build wrote it. Never edit: every later build must
-- open it.
PRAGMA application_id = 1919907699;
PRAGMA user_version = 2;
CREATE TABLE devices (
  device_class TEXT NOT NULL,
  uuid TEXT NOT NULL,
  name TEXT NOT NULL,
  compiler TEXT NOT NULL,
  driver_version INTEGER NOT NULL,
  tuned_at INTEGER NOT NULL,
  PRIMARY KEY (device_class, uuid)
);
CREATE TABLE winners (
  device_class TEXT NOT NULL,
  op TEXT NOT NULL,
  dtype_in TEXT NOT NULL,
  dtype_out TEXT NOT NULL,
  cols INTEGER NOT NULL,
  layout TEXT NOT NULL,
  rows INTEGER NOT NULL,
  config TEXT NOT NULL,
  family TEXT NOT NULL,
  family_digest TEXT NOT NULL,
  median_ns INTEGER NOT NULL,
  effort TEXT NOT NULL,
  tuned_at INTEGER NOT NULL,
  evidence TEXT NOT NULL,
  PRIMARY KEY (device_class, op, dtype_in, dtype_out, cols, layout, rows)
);
CREATE TABLE rejections (
  device_class TEXT NOT NULL,
  op TEXT NOT NULL,
  dtype_in TEXT NOT NULL,
  dtype_out TEXT NOT NULL,
  cols INTEGER NOT NULL,
  layout TEXT NOT NULL,
  rows INTEGER NOT NULL,
  config TEXT NOT NULL,
  family_digest TEXT NOT NULL,
  code INTEGER NOT NULL,
  reason TEXT NOT NULL,
  PRIMARY KEY (device_class, op, dtype_in, dtype_out, cols, layout, rows, config)
);
CREATE TABLE misses (
  device_class TEXT NOT NULL,
  op TEXT NOT NULL,
  dtype_in TEXT NOT NULL,
  dtype_out TEXT NOT NULL,
  cols INTEGER NOT NULL,
  layout TEXT NOT NULL,
  rows INTEGER NOT NULL,
  calls INTEGER NOT NULL,
  PRIMARY KEY (device_class, op, dtype_in, dtype_out, cols, layout, rows)
);
CREATE TABLE screenings (
  device_class TEXT NOT NULL,
  op TEXT NOT NULL,
  dtype_in TEXT NOT NULL,
  dtype_out TEXT NOT NULL,
  cols INTEGER NOT NULL,
  layout TEXT NOT NULL,
  rows INTEGER NOT NULL,
  config TEXT NOT NULL,
  median_ns INTEGER NOT NULL,
  default_config TEXT NOT NULL,
  default_ns INTEGER NOT NULL,
  family_digest TEXT NOT NULL,
  compiler TEXT NOT NULL,
  driver_version INTEGER NOT NULL,
  PRIMARY KEY (device_class, op, dtype_in, dtype_out, cols, layout, rows, config)
);
INSERT INTO devices VALUES ('host', '', 'host', 'g++ 12.2.0', 0, 1790000000);
INSERT INTO winners VALUES ('host', 'softmax', 'f16', 'f32', 257, 'src=2,dst=4,co=1,src-pitched', 4,
  'block_row:threads=256,pack=8', 'block_row', 'd1', 1234, 'standard', 1790000000,
  '{"candidates":12,"effort":"standard","error_ratio":0.25,"median_ns":1234,"tuned_at":1790000000}');
INSERT INTO winners VALUES ('host', 'softmax', 'f32', 'f32', 1000, 'src=32,dst=32,co=32', 4,
  'warp_rows:lanes=32', 'warp_rows', 'd2', 999, 'quick', 1790000001,
  '{"effort":"quick","median_ns":999,"tuned_at":1790000001}');
INSERT INTO rejections VALUES ('host', 'softmax', 'f32', 'f32', 1000, 'src=32,dst=32,co=32', 4,
  'warp_rows:lanes=8', 'd2', 5, 'does not compile');
INSERT INTO misses VALUES ('host', 'softmax', 'f32', 'f32', 1001, 'src=32,dst=32,co=32', 4, 17);
INSERT INTO screenings VALUES ('host', 'softmax', 'f32', 'f32', 1000, 'src=32,dst=32,co=32', 4,
  'warp_rows:lanes=16', 1010, 'warp_rows:lanes=32', 1001, 'd2', 'g++ 12.2.0', 0);
