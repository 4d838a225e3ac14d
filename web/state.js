// SPDX-License-Identifier: MIT
// What is shown, and the URL for it: #view=heatmap&kind=cross&layer=3&head=5&token=7.
// Layers, heads and tokens are numbered from 0, as in the tensors; head -1 is the mean of all. If
// the first dimension is a batch, sequence=3 replaces layer=3.

const state = {
  view: 'overview',
  kind: '',
  layer: 0,
  head: 0,
  token: -1,
  words: false,
  shade: 'root',
};
const LEFT_OUT = {token: -1, words: false, shade: 'root'}; // omitted from the URL
const NUMBERS = {layer: 0, head: -1, token: -1}; // the minimum of each

const VIEW_ALIASES = {alignment: 'align'};

const headName = head => (head < 0 ? 'mean of heads' : `head ${head}`);

function stateHash() {
  const parts = [
    `view=${state.view}`,
    `kind=${state.kind}`,
    `${current.trace.groups.get(state.kind).axis}=${state.layer}`,
    `head=${state.head < 0 ? 'mean' : state.head}`,
  ];
  if (state.token >= 0) parts.push(`token=${state.token}`);
  if (state.words) parts.push('words=1');
  if (state.shade !== 'root') parts.push(`shade=${state.shade}`);
  return '#' + parts.join('&');
}

function readHash(hash) {
  const wanted = {};
  for (const [name, value] of new URLSearchParams(hash.replace(/^#/, ''))) {
    const key = name === 'sequence' ? 'layer' : name;
    if (key === 'head' && value === 'mean') wanted.head = -1;
    else if (key in NUMBERS && /^-?\d{1,9}$/.test(value)) wanted[key] = Number(value);
    else if (key === 'words') wanted.words = value === '1';
    else if (key === 'shade' && Object.hasOwn(SHADES, value)) wanted.shade = value;
    else if (key === 'view')
      wanted.view = Object.hasOwn(VIEW_ALIASES, value) ? VIEW_ALIASES[value] : value;
    else if (key === 'kind') wanted.kind = value;
  }
  return wanted;
}

// Applies wanted values, clamped to the trace.
function applyState(trace, wanted, views) {
  Object.assign(state, wanted);
  if (!trace.groups.has(state.kind)) state.kind = trace.groups.keys().next().value;
  if (!views.some(v => v.id === state.view)) state.view = views[0].id;
  const group = trace.groups.get(state.kind),
    within = (x, low, end) => Math.min(Math.max(x, low), end - 1);
  state.layer = within(state.layer, 0, group.layers);
  state.head = within(state.head, -1, group.heads);
  state.words = state.words && (group.queries.mergeable || group.keys.mergeable);
  state.token = within(state.token, -1, state.words ? group.queries.words.length : group.rows);
}

function writeHash() {
  try {
    history.replaceState(null, '', stateHash());
  } catch {
    /* a page in a page may not */
  }
}
