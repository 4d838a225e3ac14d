// SPDX-License-Identifier: MIT
// One query's attention in one head, computed from the q, k and v of a trace as in the model.

function dot(a, aStart, b, bStart, count) {
  let sum = 0;
  for (let i = 0; i < count; i++) sum += a[aStart + i] * b[bStart + i];
  return sum;
}

// Row i of head h of a tap (heads, rows, width).
function tapRow({data, shape}, h, i) {
  const width = shape[2], start = (h * shape[1] + i) * width;
  return Array.from(data.subarray(start, start + width));
}

// May the query see the key? Without a recorded mask, decoder self-attention is causal.
function maySee(group, taps, query, key) {
  if (taps.mask) return taps.mask.data[query * group.cols + key] !== 0;
  return group.kind !== 'decoder.self' || key <= query;
}

// For each key: {j, product: q.k, score: product times scale, visible, power:
// exp(score - top), weight, recorded}; and their sum and the output.
function attendQuery(group, taps, head, query) {
  const [heads, , width] = taps.q.shape, [keyHeads, count] = taps.k.shape;
  const keyHead = Math.floor(head / (heads / keyHeads)); // grouped-query heads share keys
  const qStart = (head * group.rows + query) * width;
  const rows = Array.from({length: count}, (_, j) => {
    const product = dot(taps.q.data, qStart, taps.k.data, (keyHead * count + j) * width, width);
    const recorded = taps.weights[head].data[query * count + j];
    const visible = maySee(group, taps, query, j);
    return {j, product, score: product * group.scale, visible, recorded};
  });
  const top = rows.reduce((most, r) => (r.visible ? Math.max(most, r.score) : most), -Infinity);
  let sum = 0;
  for (const r of rows) sum += r.power = r.visible ? Math.exp(r.score - top) : 0;
  const values = rows.map(r => tapRow(taps.v, keyHead, r.j)), out = values[0].map(() => 0);
  for (const r of rows) {
    r.weight = sum > 0 ? r.power / sum : 0;
    for (let e = 0; e < out.length; e++) out[e] += r.weight * values[r.j][e];
  }
  const q = tapRow(taps.q, head, query);
  return {rows, top, sum, out, q, k: j => tapRow(taps.k, keyHead, j), v: j => values[j]};
}
