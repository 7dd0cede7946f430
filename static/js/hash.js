// FNV-1a over "id:rev,id:rev": what console.live.fingerprint computes of the database.

/** @param {Iterable<[string, number | string]>} rows */
export function fingerprint(rows) {
  const text = Array.from(rows, ([id, rev]) => `${id}:${rev}`).join(",");
  let value = 0x811c9dc5;
  for (let i = 0; i < text.length; i += 1) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193);
  return (value >>> 0).toString(16).padStart(8, "0");
}
