// SPDX-License-Identifier: MIT
// What is shown, and the URL for it: #view=heatmap&kind=cross&layer=3&head=5&token=7.
// Layers, heads and tokens are numbered from 0, as in the tensors; head -1 is the mean of all. If
// the first dimension is a batch, sequence=3 replaces layer=3. kind2, layer2 and head2 are what is
// compared with that. In a served page text=... is the text, off=cross.2.0,... are the heads that
// are disabled, and text2 is the text that is compared.

const state = {
  view: 'overview',
  kind: '',
  layer: 0,
  head: 0,
  token: -1,
  words: true,
  shade: 'root',
  kind2: '',
  layer2: -1, // -1, -2: not chosen yet
  head2: -2,
  text: '',
  off: '',
  text2: '',
};
// Omitted from the URL.
const LEFT_OUT = {
  token: -1, words: true, shade: 'root', kind2: '', layer2: -1, head2: -2, text: '', off: '', text2: '',
};
const NUMBERS = {layer: 0, head: -1, token: -1, layer2: 0, head2: -1}; // the minimum of each
const TEXTS = ['kind', 'kind2', 'text', 'text2'];
// A change of these is a step that the browser's Back undoes; others replace the current address.
const STEPS = ['view', 'kind', 'layer', 'head', 'kind2', 'layer2', 'head2', 'text', 'off', 'text2'];

const VIEW_ALIASES = {alignment: 'align'};
const OFF_NAMES = {'encoder.self': 'enc', 'decoder.self': 'dec', cross: 'cross'};
const OFF_LIST = /^(enc|dec|cross)\.\d{1,4}\.\d{1,4}(,(enc|dec|cross)\.\d{1,4}\.\d{1,4})*$/;

const headName = head => (head < 0 ? 'mean of heads' : `head ${head}`);
const headText = head => (head < 0 ? 'mean' : String(head));

function stateHash() {
  const parts = [
    `view=${state.view}`,
    `kind=${state.kind}`,
    `${current.trace.groups.get(state.kind).axis}=${state.layer}`,
    `head=${headText(state.head)}`,
  ];
  if (state.token >= 0) parts.push(`token=${state.token}`);
  if (!state.words) parts.push('words=0');
  if (state.shade !== 'root') parts.push(`shade=${state.shade}`);
  if (state.view === 'compare' && state.kind2)
    parts.push(`kind2=${state.kind2}`, `layer2=${state.layer2}`, `head2=${headText(state.head2)}`);
  for (const key of ['text', 'off', ...(state.view === 'compare' ? ['text2'] : [])])
    if (state[key]) parts.push(`${key}=${encodeURIComponent(state[key])}`);
  return '#' + parts.join('&');
}

function readHash(hash) {
  const wanted = {};
  for (const [name, value] of new URLSearchParams(hash.replace(/^#/, ''))) {
    const key = name === 'sequence' ? 'layer' : name;
    if ((key === 'head' || key === 'head2') && value === 'mean') wanted[key] = -1;
    else if (key in NUMBERS && /^-?\d{1,9}$/.test(value)) wanted[key] = Number(value);
    else if (key === 'words') wanted.words = value !== '0';
    else if (key === 'shade' && Object.hasOwn(SHADES, value)) wanted.shade = value;
    else if (key === 'off') wanted.off = OFF_LIST.test(value) ? [...new Set(value.split(','))].join(',') : '';
    else if (key === 'view')
      wanted.view = Object.hasOwn(VIEW_ALIASES, value) ? VIEW_ALIASES[value] : value;
    else if (TEXTS.includes(key)) wanted[key] = value;
  }
  return wanted;
}

// Applies wanted values, clamped to the trace. A page with its own trace has no server to ask: texts
// and disabled heads of an address are not for it.
function applyState(trace, wanted, views) {
  Object.assign(state, wanted, trace.served ? {} : {text: '', off: '', text2: ''});
  if (!trace.groups.has(state.kind)) state.kind = trace.main;
  if (!views.some(v => v.id === state.view)) state.view = views[0].id;
  const group = trace.groups.get(state.kind),
    within = (x, low, end) => Math.min(Math.max(x, low), end - 1);
  state.layer = within(state.layer, 0, group.layers);
  state.head = within(state.head, -1, group.heads);
  state.token = within(state.token, -1, group.rows);
}

// The address of what is shown; `step`: one that Back returns from.
function writeHash(step = false) {
  const hash = stateHash();
  if (hash === location.hash) return;
  try {
    if (step) history.pushState(null, '', hash);
    else history.replaceState(null, '', hash);
  } catch {
    /* a page in a page may not */
  }
}
