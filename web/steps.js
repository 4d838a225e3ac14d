// SPDX-License-Identifier: MIT
// Steps: how one query's attention is computed, step by step, with the values of the trace. The
// weights computed here (compute.js) are shown next to the recorded ones.

const FEW_KEYS = 24, FEW_NUMBERS = 8;

const largest = lists =>
  lists.reduce((most, list) => list.reduce((m, x) => Math.max(m, Math.abs(x)), most), 0);
// Row i of a tap (rows, width); null if there is none.
const rowOf = (tap, i) => {
  if (!tap) return null;
  const width = tap.shape[1];
  return Array.from(tap.data.subarray(i * width, (i + 1) * width));
};
// "W_q" with its index below.
const subscripts = text => text.split(/(?<=W)_([a-z])/).map((part, i) => (i % 2 ? el('sub', {}, part) : part));
const formula = (text, note = '') =>
  el('p', {class: 'formula'}, ...subscripts(text), note ? el('span', {class: 'muted beside'}, ...subscripts(note)) : null);
// What the colours of strips mean.
function stripLegend() {
  const bar = el('span', {class: 'signed'});
  bar.style.background = `linear-gradient(to right, ${[-1, -0.5, 0, 0.5, 1].map(signedColour).join(', ')})`;
  return el('p', {class: 'striplegend muted'}, 'negative ', bar, ' positive; white or black is 0, the strongest ' +
    'colour the largest value of a strip. Point at one for its values.');
}
const cellWidth = (room, count, most) => Math.max(1, Math.min(most, room / count));

// A vector as a strip of colours, orange below 0, blue above; values on hover.
function strip(values, most, label, cell) {
  const canvas = el('canvas', {class: 'strip', role: 'img'});
  const context = sharpContext(canvas, values.length * cell, 18);
  canvas.setAttribute('aria-label', `${label}: ${values.length} values`);
  values.forEach((value, i) => {
    context.fillStyle = signedColour(value / (most || 1));
    context.fillRect(i * cell, 0, Math.ceil(cell), 18);
  });
  canvas.addEventListener('pointermove', event => {
    const i = Math.min(values.length - 1, Math.max(0, Math.floor(event.offsetX / cell)));
    showTip(event, `${label}[${i}]`, numberText(values[i]));
  });
  canvas.addEventListener('pointerleave', hideTip);
  return canvas;
}

// A strip on its own line, and the first values as text.
function vector(values, label, most = largest([values])) {
  const few = values.slice(0, FEW_NUMBERS).map(numberText).join(', ');
  const more = values.length > FEW_NUMBERS ? ', …' : '';
  return el('div', {class: 'scroll'},
    strip(values, most, label, cellWidth(1000, values.length, 14)),
    el('p', {class: 'numbers muted'}, `${label} = (${few}${more})`));
}

function weightBar(weight, most) {
  const bar = el('span', {class: 'weightbar'});
  bar.style.width = `${(100 * weight) / most}%`;
  return el('span', {class: 'barbox'}, bar);
}

const steps = {
  id: 'steps',
  name: 'Steps',
  every: false, // show all keys

  async render(host, trace, alive) {
    const group = current.group, head = shownHead();
    const taps = await this.load(group);
    if (!alive()) return;
    const query = this.query(group, taps.weights[head]), labels = this.labels(group.queries);
    const pick = labels.map((label, i) => el('button', {
      class: 'word', 'aria-pressed': String(i === query), id: `query${i}`, onclick: () => go({token: i}),
    }, shorten(label, 24)));
    host.append(el('section', {class: 'card'},
      el('h2', {}, `Head ${head} of ${group.axis} ${state.layer}`), offNote(group, state.layer, head),
      el('p', {class: 'muted'}, (group.patches ? 'Choose the query, the patch that attends, by its row and column.' : 'Choose the query, the token that attends.') +
        (taps.q ? '' : ' This trace has weights only; with q, k and v in it, every intermediate value is shown here.')),
      el('div', {class: 'sentence pick', role: 'group', 'aria-label': 'Query', lang: ''}, ...pick),
      taps.q ? stripLegend() : null));
    const keys = this.labels(group.keys), own = patchName(labels[query]);
    const name = own === labels[query] ? `“${own}”` : own;
    if (taps.q) this.compute(host, {group, taps, head, query, keys, name});
    else this.weightsOnly(host, {group, taps, head, query, keys});
  },

  // Tokens without the marks of their tokenizer.
  labels: tokens => tokens.bare.map(tokenText),

  // The one that was chosen, or that of the clearest weight: the first query of a causal model, for
  // instance, sees one key and has nothing to show.
  query(group, weights) {
    if (state.token >= 0) return state.token;
    const best = clearestCell(group, weights, false);
    return best ? best.i : Math.floor(group.rows / 2);
  },

  async load(group) {
    const taps = {weights: []};
    for (const name of ['q', 'k', 'v', 'out', 'mask', 'x', 'sum', 'hidden'])
      taps[name] = await group.tap(name, state.layer);
    for (let h = 0; h < group.heads; h++) taps.weights.push(await group.head(state.layer, h));
    return taps;
  },

  // The strongest keys, in their order, unless all are requested.
  choose(rows) {
    if (this.every || rows.length <= FEW_KEYS) return rows;
    const strongest = [...rows].sort((a, b) => b.weight - a.weight).slice(0, FEW_KEYS);
    return strongest.sort((a, b) => a.j - b.j);
  },
  moreButton(count) {
    if (count <= FEW_KEYS) return null;
    const text = this.every ? `The ${FEW_KEYS} strongest keys` : `All ${count} keys`;
    return el('button', {onclick: () => { this.every = !this.every; go({}); }}, text);
  },

  compute(host, {group, taps, head, query, keys, name}) {
    const a = attendQuery(group, taps, head, query), width = taps.q.shape[2];
    // a disabled head counts as 0
    const outputs = taps.weights.map((_, h) => (isOff(group, state.layer, h)
      ? a.out.map(() => 0) : h === head ? a.out : attendQuery(group, taps, h, query).out));
    const joined = outputs.flat(), most = largest(outputs);
    let number = 0;
    const step = (title, text, ...content) => host.append(el('section', {class: 'card step'},
      el('h2', {}, el('span', {class: 'stepnumber'}, String(++number)), title),
      el('p', {class: 'muted'}, ...subscripts(text)), ...content));
    const x = rowOf(taps.x, query);
    this.result = {rows: a.rows, keys};

    if (x) this.inputStep(step, {group, x, name});
    step('The query', (x ? 'W_q, a matrix that was learnt, turns x into q, ' : 'q, ') +
      `${counted(width, 'value')}: what ${name} looks for.`,
      x ? formula(`q = W_q x + b`, `${width} values from ${x.length}; this head’s rows of W_q, b if the model has one`) : null,
      vector(a.q, 'q'));
    step('Scores, mask, softmax',
      `Each key k is compared with q: q·k, times a scale (1/√${width} unless the model has its own). ` +
      'Keys that the query may not see are masked: left out. exp makes the scores positive, and dividing ' +
      'by their sum makes weights that sum to 1. “Recorded” is what the model computed itself.',
      formula('weights = softmax(q kᵀ · scale + mask)', x ? 'k = W_k x and v = W_v x, of the x of each key' : ''),
      el('div', {class: 'scroll'}, this.scoreTable(group, a, keys)),
      this.moreButton(a.rows.length), this.formula(group, a, keys));
    step('The weighted values', 'The head’s output is the sum of all values, each times its ' +
      `weight: ${this.terms(a.rows, keys)}`, formula('output = Σ weight · v'), vector(a.out, 'output'));
    step('All heads', 'Every head does the same with its own q, k and v.' +
      (outputs.some((_, h) => isOff(group, state.layer, h)) ? ' The output of a disabled head is 0.' : ''),
      el('div', {class: 'heads'}, ...outputs.map((out, h) => this.headOutput(out, h, head, most, query, isOff(group, state.layer, h)))));
    step('Concatenated', `One after the other: ${outputs.length} × ${a.out.length} = ` +
      `${joined.length} values.`, vector(joined, 'concatenated', most));
    const out = rowOf(taps.out, query);
    if (!out) return;
    step('The output projection', `A matrix mixes the heads into ${out.length} values: the output of attention for ` +
      'this query.', formula('out = W_o · concatenated + b'), vector(out, 'out'));
    const sum = rowOf(taps.sum, query), hidden = rowOf(taps.hidden, query);
    if (sum) this.residualStep(step, {norm: group.norm, x, out, sum});
    if (sum && hidden) this.feedForwardStep(step, {norm: group.norm, sum, hidden});
    else if (sum && group.trace.groups.has('cross') && group.kind === 'decoder.self')
      step('Then cross-attention', 'This sum is what cross-attention of the same layer reads.',
        el('button', {onclick: () => go({kind: 'cross', token: query})}, 'The steps of cross-attention'));
  },

  inputStep(step, {group, x, name}) {
    const before = group.norm === 'after' ? '' : ', normalised (LayerNorm or RMSNorm)';
    step('The input', `x, ${x.length} values: what the layers before have made of ${name}${before}.` +
      (group.kind === 'cross' ? ' The keys come from the encoder instead.' : ''), vector(x, 'x'));
  },
  // What attention adds to the stream of the layers.
  residualStep(step, {norm, x, out, sum}) {
    const after = norm === 'after', both = norm === 'both', before = sum.map((value, i) => value - out[i]);
    const most = largest([out, sum]);
    step(after ? 'Add and norm' : 'The residual connection', 'A layer does not replace what was there, it adds to it: the residual connection.' +
      (after ? ' Then the sum is normalised.' : ''),
      formula(after ? 'sum = norm(x + out)' : both ? 'sum = residual + norm(out)' : 'sum = residual + out',
        after ? '' : 'residual: what came into the layer, before its norm'),
      after ? vector(x, 'x') : both ? null : vector(before, 'residual', most),
      vector(out, 'out', after ? undefined : most), vector(sum, 'sum', after ? undefined : most));
  },
  feedForwardStep(step, {norm, sum, hidden}) {
    const added = hidden.map((value, i) => value - sum[i]), after = norm === 'after', most = largest([sum, hidden]);
    step('Feed-forward', 'Two more matrices with a nonlinearity between them work on each token alone, and again the ' +
      'result is added. This is the layer’s output, the input of the next one.',
      formula(after ? 'output = norm(sum + FFN(sum))' : norm === 'parallel' ? 'output = sum + FFN(norm(residual))' : 'output = sum + FFN(norm(sum))',
        'FFN(z) = W₂ · activation(W₁ z + b₁) + b₂; some models multiply by a gate as well'),
      after ? null : vector(added, 'FFN', most), vector(hidden, 'output', after ? undefined : most));
  },

  scoreTable(group, a, keys) {
    const shown = this.choose(a.rows), k = shown.map(r => a.k(r.j)), v = shown.map(r => a.v(r.j));
    const most = {k: largest(k), v: largest(v), weight: Math.max(1e-9, ...shown.map(r => r.weight))};
    const columns = ['key', 'k', 'q·k', `× ${numberText(group.scale)}`, 'visible',
                     'exp(score − max)', 'weight', '', 'recorded', 'v'];
    const small = (values, n, label) => strip(values, n, label, cellWidth(128, values.length, 8));
    const cell = (kind, content) => el('td', {class: kind}, content);
    const row = (r, n) => el('tr', {class: r.visible ? '' : 'masked', 'data-key': r.j},
      el('th', {scope: 'row'}, shorten(keys[r.j], 16)), cell('', small(k[n], most.k, 'k')),
      cell('n', numberText(r.product)), cell('n', numberText(r.score)),
      cell('c', r.visible ? 'yes' : 'no'), cell('n', numberText(r.power)),
      cell('n strong', weightText(r.weight)), cell('', weightBar(r.weight, most.weight)),
      cell('n muted', weightText(r.recorded)), cell('', small(v[n], most.v, 'v')));
    return el('table', {class: 'steps scores'},
      el('thead', {}, el('tr', {}, ...columns.map(text => el('th', {scope: 'col'}, text)))),
      el('tbody', {}, ...shown.map(row)));
  },
  // The strongest key, from q.k to its weight.
  formula(group, a, keys) {
    const best = a.rows.reduce((x, r) => (r.weight > x.weight ? r : x), a.rows[0]);
    const [product, scale, score, top, sum] =
      [best.product, group.scale, best.score, a.top, a.sum].map(numberText);
    return el('p', {class: 'formula'}, `“${keys[best.j]}”: ${product} × ${scale} = ${score};  ` +
      `exp(${score} − ${top}) / ${sum} = ${weightText(best.weight)}`);
  },
  terms(rows, keys) {
    const strongest = rows.filter(r => r.weight > 0).sort((x, y) => y.weight - x.weight);
    const shown = strongest.slice(0, 3).map(r => `${weightText(r.weight)} · v(${keys[r.j]})`);
    return shown.join(' + ') + (strongest.length > 3 ? ' + …' : '');
  },
  headOutput(out, h, head, most, query, off) {
    const name = el('button', {'aria-pressed': String(h === head), onclick: () => go({head: h, token: query})},
      `head ${h}${off ? ', disabled' : ''}`);
    return el('div', {class: 'headout'}, name,
      strip(out, most, `head ${h}`, cellWidth(192, out.length, 10)));
  },

  weightsOnly(host, {group, taps, head, query, keys}) {
    const start = query * group.cols, data = taps.weights[head].data;
    const rows = keys.map((_, j) => ({j, weight: data[start + j], recorded: data[start + j]}));
    const shown = this.choose(rows), most = Math.max(1e-9, ...shown.map(r => r.weight));
    this.result = {rows, keys};
    host.append(el('section', {class: 'card'},
      el('table', {class: 'steps'}, el('tbody', {}, ...shown.map(r => el('tr', {},
        el('th', {scope: 'row'}, shorten(keys[r.j], 20)),
        el('td', {class: 'n strong'}, weightText(r.weight)),
        el('td', {class: 'wide'}, weightBar(r.weight, most)))))),
      this.moreButton(rows.length)));
  },

  table() {
    const {rows, keys} = this.result, value = x => (x === undefined ? '' : x);
    const columns = ['product', 'score', 'visible', 'power', 'weight', 'recorded'];
    return [['key', 'token', 'q.k', 'score', 'visible', 'exp', 'weight', 'recorded'],
            ...rows.map(r => [r.j, keys[r.j], ...columns.map(c => value(r[c]))])];
  },
  async svg() {
    const short = x => (typeof x === 'number' ? numberText(x) : String(x));
    return tableSvg(currentTitle(), this.table().map(row => row.map(short)));
  },
  async csv() { return csvOf(this.table()); },
};
