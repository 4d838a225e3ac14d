// SPDX-License-Identifier: MIT
// Steps: how one query's attention is computed, with the numbers of the trace. The scores and the
// softmax are computed here from q and k, and stand beside the weights that were recorded.

const FEW_KEYS = 24;

const dot = (a, ai, b, bi, n) => { let sum = 0; for (let i = 0; i < n; i++) sum += a[ai + i] * b[bi + i]; return sum; };

// A vector as a strip of colours, orange below 0, blue above; the numbers on hover.
function strip(values, most, label, cell = 0) {
  const width = values.length * (cell || Math.min(14, Math.max(2, 560 / values.length)));
  const canvas = el('canvas', {class: 'strip', role: 'img', 'aria-label': `${label}: ${values.length} numbers`});
  const c = sharpContext(canvas, width, 18), size = width / values.length;
  values.forEach((v, i) => { c.fillStyle = signedColour(v / (most || 1)); c.fillRect(i * size, 0, Math.ceil(size), 18); });
  canvas.addEventListener('pointermove', e => {
    const i = Math.min(values.length - 1, Math.max(0, Math.floor(e.offsetX / size)));
    showTip(e, `${label}[${i}]`, numberText(values[i]));
  });
  canvas.addEventListener('pointerleave', hideTip);
  return canvas;
}
const largest = (...lists) => lists.reduce((m, list) => list.reduce((a, x) => Math.max(a, Math.abs(x)), m), 0);

// All of one head's attention for a query: keys' scores, what may be seen, weights, the output.
function attendQuery(group, taps, head, query) {
  const [heads, , width] = taps.q.shape, [keyHeads, count] = taps.k.shape, valueWidth = taps.v.shape[2];
  const keyHead = Math.floor(head / (heads / keyHeads)), rows = [];
  const qAt = (head * group.rows + query) * width;
  for (let j = 0; j < count; j++) {
    const product = dot(taps.q.data, qAt, taps.k.data, (keyHead * count + j) * width, width);
    const recorded = taps.weights[head].data[query * count + j];
    const live = taps.mask ? taps.mask.data[query * count + j] !== 0 : recorded > 0 || !group.masked(taps, query, j);
    rows.push({j, product, score: product * group.scale, live, recorded});
  }
  const top = Math.max(...rows.filter(r => r.live).map(r => r.score));
  let sum = 0;
  for (const r of rows) sum += r.power = r.live ? Math.exp(r.score - top) : 0;
  const out = new Float64Array(valueWidth);
  for (const r of rows) {
    r.weight = sum > 0 ? r.power / sum : 0;
    for (let e = 0; e < valueWidth; e++) out[e] += r.weight * taps.v.data[(keyHead * count + r.j) * valueWidth + e];
  }
  const slice = (tap, h, i, n) => Array.from(tap.data.subarray((h * tap.shape[1] + i) * n, (h * tap.shape[1] + i + 1) * n));
  return {rows, top, sum, out: Array.from(out), q: slice(taps.q, head, query, width),
          k: j => slice(taps.k, keyHead, j, width), v: j => slice(taps.v, keyHead, j, valueWidth)};
}
// Without a recorded mask, decoder self-attention hides what comes later.
Group.prototype.masked = function masked(taps, i, j) { return this.kind === 'decoder.self' && j > i; };

const steps = {
  id: 'steps',
  name: 'Steps',
  every: false,

  async render(host, trace, alive) {
    const group = current.group, head = Math.max(0, state.head);
    const query = state.words ? (group.queries.words[Math.max(0, state.token)] || {first: 0}).first : Math.max(0, state.token);
    const taps = await this.load(group);
    if (!alive()) return;
    const labels = group.queries.labels(false);
    const pick = el('select', {'aria-label': 'Query', onchange: e => { state.words = false; go({token: Number(e.target.value)}); }},
      ...labels.map((t, i) => el('option', {value: String(i), selected: i === query}, `${i}: ${shorten(t, 24)}`)));
    host.append(el('section', {class: 'card'}, el('h2', {}, `Head ${head} of layer ${state.layer}`), el('p', {}, 'The query is ', pick,
      taps.q ? '' : '. This trace has weights only; with q, k and v in it, every number on the way is shown here.')));
    if (taps.q) this.compute(host, group, taps, head, query);
    else this.weightsOnly(host, group, taps, head, query);
  },

  async load(group) {
    const taps = {weights: []};
    for (const name of ['q', 'k', 'v', 'out', 'mask']) taps[name] = await group.tap(name, state.layer);
    for (let h = 0; h < group.heads; h++) taps.weights.push(await group.head(state.layer, h));
    return taps;
  },

  order(rows, weight) {
    const few = this.every || rows.length <= FEW_KEYS;
    return few ? rows : [...rows].sort((a, b) => weight(b) - weight(a)).slice(0, FEW_KEYS).sort((a, b) => a.j - b.j);
  },
  moreButton(count) {
    if (count <= FEW_KEYS) return null;
    return el('button', {onclick: () => { this.every = !this.every; go({}); }}, this.every ? `The ${FEW_KEYS} strongest keys` : `All ${count} keys`);
  },

  compute(host, group, taps, head, query) {
    const a = attendQuery(group, taps, head, query), keys = group.keys.labels(false), width = taps.q.shape[2];
    const shown = this.order(a.rows, r => r.weight), most = {q: largest(a.q), k: largest(...shown.map(r => a.k(r.j))), v: largest(...shown.map(r => a.v(r.j)))};
    const weightMost = Math.max(...a.rows.map(r => r.weight), 1e-9);
    this.result = {a, keys, head, query, group};
    const step = (n, title, text, ...content) => host.append(el('section', {class: 'card step'}, el('h2', {}, el('span', {class: 'stepnumber'}, String(n)), title), el('p', {class: 'muted'}, text), ...content));
    step(1, 'The query', `q, ${width} numbers: what “${group.queries.labels(false)[query]}” looks for.`, el('div', {class: 'scroll'}, strip(a.q, most.q, 'q')));

    const bar = w => { const b = el('span', {class: 'weightbar'}); b.style.width = `${100 * w / weightMost}%`; return el('span', {class: 'barbox'}, b); };
    const head3 = ['key', 'k', 'q·k', `× ${numberText(group.scale)}`, 'may see', 'exp(score − max)', 'weight', '', 'recorded', 'v'];
    const table = el('table', {class: 'steps'}, el('thead', {}, el('tr', {}, ...head3.map(t => el('th', {scope: 'col'}, t)))),
      el('tbody', {}, ...shown.map(r => el('tr', {class: r.live ? '' : 'dead', 'data-key': String(r.j)}, el('th', {scope: 'row'}, shorten(keys[r.j], 16)),
        el('td', {}, strip(a.k(r.j), most.k, 'k', Math.max(1, Math.min(8, 128 / width)))), el('td', {class: 'n'}, numberText(r.product)), el('td', {class: 'n'}, numberText(r.score)),
        el('td', {class: 'c'}, r.live ? 'yes' : 'no'), el('td', {class: 'n'}, r.live ? numberText(r.power) : '0'), el('td', {class: 'n strong'}, weightText(r.weight)), el('td', {}, bar(r.weight)),
        el('td', {class: 'n muted'}, weightText(r.recorded)), el('td', {}, strip(a.v(r.j), most.v, 'v', Math.max(1, Math.min(8, 128 / taps.v.shape[2]))))))));
    const best = a.rows.reduce((x, r) => r.weight > x.weight ? r : x, a.rows[0]);
    step(2, 'Scores, mask, softmax', `Each key k is compared: q·k, times the scale 1/√${width} unless the model has its own. Keys that may not be seen are out. exp makes all positive, dividing by their sum makes weights that add up to 1.`,
      el('div', {class: 'scroll'}, table), this.moreButton(a.rows.length),
      el('p', {class: 'formula'}, `“${keys[best.j]}”: ${numberText(best.product)} × ${numberText(group.scale)} = ${numberText(best.score)};  exp(${numberText(best.score)} − ${numberText(a.top)}) / ${numberText(a.sum)} = ${weightText(best.weight)}`));
    const terms = a.rows.filter(r => r.weight > 0).sort((x, y) => y.weight - x.weight).slice(0, 3).map(r => `${weightText(r.weight)} · v(${keys[r.j]})`);
    step(3, 'The weighted values', `The head’s output is the sum of all values, each times its weight: ${terms.join(' + ')}${a.rows.length > 3 ? ' + …' : ''}`,
      el('div', {class: 'scroll'}, strip(a.out, largest(a.out), 'output')));

    const outputs = taps.weights.map((_, h) => h === head ? a.out : attendQuery(group, taps, h, query).out), outMost = largest(...outputs);
    step(4, 'All heads, side by side', 'Every head does the same with its own q, k and v.', el('div', {class: 'heads'}, ...outputs.map((o, h) => {
      const name = el('button', {'aria-pressed': String(h === head), onclick: () => go({head: h})}, `head ${h}`);
      return el('div', {class: 'headout'}, name, strip(o, outMost, `head ${h}`, Math.max(1, Math.min(10, 192 / o.length))));
    })));
    const joined = outputs.flat();
    step(5, 'Concatenated', `One after the other: ${outputs.length} × ${a.out.length} = ${joined.length} numbers.`, el('div', {class: 'scroll'}, strip(joined, outMost, 'concatenated', Math.max(1, Math.min(10, 1000 / joined.length)))));
    if (taps.out) {
      const d = taps.out.shape[1], row = Array.from(taps.out.data.subarray(query * d, (query + 1) * d));
      step(6, 'The output projection', `A matrix W mixes the heads into ${d} numbers, the attention’s answer for this query.`, el('div', {class: 'scroll'}, strip(row, largest(row), 'output', Math.max(1, Math.min(10, 1000 / d)))));
    }
  },

  weightsOnly(host, group, taps, head, query) {
    const keys = group.keys.labels(false), data = taps.weights[head].data;
    const rows = keys.map((_, j) => ({j, weight: data[query * group.cols + j], recorded: data[query * group.cols + j]}));
    const most = Math.max(...rows.map(r => r.weight), 1e-9);
    this.result = {a: {rows}, keys, head, query, group};
    host.append(el('section', {class: 'card'}, el('table', {class: 'steps'}, el('tbody', {}, ...this.order(rows, r => r.weight).map(r => {
      const b = el('span', {class: 'weightbar'});
      b.style.width = `${100 * r.weight / most}%`;
      return el('tr', {}, el('th', {scope: 'row'}, shorten(keys[r.j], 20)), el('td', {class: 'n strong'}, weightText(r.weight)), el('td', {class: 'wide'}, el('span', {class: 'barbox'}, b)));
    }))), this.moreButton(rows.length)));
  },

  table() {
    const {a, keys} = this.result, cell = x => x === undefined ? '' : x;
    return [['key', 'token', 'q.k', 'score', 'live', 'exp', 'weight', 'recorded'],
      ...a.rows.map(r => [r.j, keys[r.j], cell(r.product), cell(r.score), cell(r.live), cell(r.power), r.weight, r.recorded])];
  },
  svg: async () => tableSvg(currentTitle(), steps.table().map((row, i) => i === 0 ? row : row.map((x, c) => typeof x === 'number' && c > 1 ? numberText(x) : x))),
  csv: async () => csvOf(steps.table()),
};
