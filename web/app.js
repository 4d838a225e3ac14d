// SPDX-License-Identifier: MIT
// The page: tabs, controls, and show(), through which all data enter - from the page itself, or
// from the server it was loaded from.

const VIEWS = [overview, heatmap, lines, align, steps, headsView];
const current = {trace: null, group: null};
let turn = 0; // a view that was started before the latest change is abandoned

const currentMatrix = () => current.group.matrix(state.layer, state.head, state.words);
// Steps computes one head, never the mean of all.
const shownHead = () => (state.view === 'steps' ? Math.max(0, state.head) : state.head);
const placeName = (group, layer, head) => `${group.name}, ${group.axis} ${layer}, ${headName(head)}`;
const currentTitle = () => placeName(current.group, state.layer, shownHead());

// Changes what is shown. Alignment opens with cross-attention, if there is any.
function go(changes) {
  if (changes.view === 'align' && state.kind !== 'cross' && current.trace.groups.has('cross'))
    changes = {kind: 'cross', ...changes};
  if ('kind' in changes || 'words' in changes) changes = {token: -1, ...changes};
  applyState(current.trace, {...state, ...changes}, VIEWS);
  writeHash();
  draw();
}

async function draw() {
  const mine = ++turn,
    host = $('view');
  current.group = current.trace.groups.get(state.kind);
  hideTip();
  drawTabs();
  drawControls();
  host.replaceChildren();
  host.setAttribute('aria-label', VIEWS.find(v => v.id === state.view).name);
  host.dataset.ready = '';
  try {
    await VIEWS.find(v => v.id === state.view).render(host, current.trace, () => mine === turn);
    if (mine === turn) host.dataset.ready = state.view;
  } catch (error) {
    if (mine === turn)
      host.replaceChildren(el('p', {class: 'note'}, `This view failed: ${error.message}`));
    console.error(error);
  }
}

function drawTabs() {
  const tabs = $('tabs'),
    focused = tabs.contains(document.activeElement);
  tabs.replaceChildren(
    ...VIEWS.map((v, i) =>
      el(
        'button',
        {
          role: 'tab',
          'aria-selected': String(v.id === state.view),
          tabindex: v.id === state.view ? '0' : '-1',
          'data-view': v.id,
          onclick: () => go({view: v.id}),
          onkeydown: e => {
            const step = {ArrowRight: 1, ArrowLeft: -1}[e.key];
            if (step) go({view: VIEWS[(i + step + VIEWS.length) % VIEWS.length].id});
          },
        },
        v.name
      )
    )
  );
  if (focused) tabs.querySelector('[aria-selected=true]').focus();
}

function drawControls() {
  const {trace, group} = current,
    active = document.activeElement && document.activeElement.id;
  const choose = (id, label, options, value, change) =>
    el(
      'label',
      {},
      el('span', {class: 'muted'}, label),
      el(
        'select',
        {id, onchange: e => change(e.target.value)},
        ...options.map(([v, text]) =>
          el('option', {value: String(v), selected: String(v) === String(value)}, text)
        )
      )
    );
  const numbers = n => Array.from({length: n}, (_, i) => [i, String(i)]);
  const overviewShown = state.view === 'overview',
    parts = [];
  if (trace.groups.size > 1 && !overviewShown)
    parts.push(
      choose(
        'kind',
        'Attention',
        [...trace.groups.values()].map(g => [g.kind, g.name.replace('-attention', '')]),
        state.kind,
        v => go({kind: v})
      )
    );
  if (!overviewShown && state.view !== 'heads') {
    parts.push(
      choose('layer', capitalise(group.axis), numbers(group.layers), state.layer, v => go({layer: Number(v)}))
    );
    parts.push(
      choose(
        'head',
        'Head',
        [...(state.view === 'steps' ? [] : [[-1, 'mean']]), ...numbers(group.heads)],
        shownHead(),
        v => go({head: Number(v)})
      )
    );
  }
  if (['overview', 'heatmap'].includes(state.view))
    parts.push(
      choose(
        'shade',
        'Shade',
        Object.entries(SHADES).map(([k, s]) => [k, s.name]),
        state.shade,
        v => go({shade: v})
      )
    );
  if (
    (group.queries.mergeable || group.keys.mergeable) &&
    ['heatmap', 'lines', 'align'].includes(state.view)
  )
    parts.push(
      el(
        'label',
        {class: 'check'},
        el('input', {
          type: 'checkbox',
          id: 'words',
          checked: state.words,
          onchange: e => go({words: e.target.checked}),
        }),
        ' whole words'
      )
    );
  const saves = ['svg', 'png', 'csv'].map(format =>
    el(
      'button',
      {
        'data-export': format,
        title: `Save this view as ${format.toUpperCase()}`,
        onclick: () =>
          exportView(
            VIEWS.find(v => v.id === state.view),
            format
          ).catch(e => console.error(e)),
      },
      format.toUpperCase()
    )
  );
  const themes = el(
    'button',
    {
      id: 'theme',
      title: 'Light or dark mode',
      'aria-label': 'Light or dark mode',
      onclick: () => {
        document.documentElement.dataset.theme = theme() === 'dark' ? 'light' : 'dark';
        draw();
      },
    },
    theme() === 'dark' ? '☀' : '☾'
  );
  // One part, so that a narrow window moves both to the next line.
  parts.push(el('span', {class: 'tools'}, el('span', {class: 'saves'}, ...saves), themes));
  $('controls').replaceChildren(...parts);
  if (active && $(active)) $(active).focus({preventScroll: true});
}

function drawFoot(bytes) {
  const {trace} = current,
    groups = [...trace.groups.values()];
  const weights = groups.reduce((n, g) => n + g.layers * g.heads * g.rows * g.cols, 0);
  const steps = trace.bits === 16 ? 65535 : 255;
  $('foot').replaceChildren(
    el(
      'span',
      {},
      `${weights.toLocaleString('en')} weights in ${trace.bits} bits: each within ±${(50 / steps).toPrecision(2)} % of its row’s maximum`
    ),
    el('span', {}, `${(bytes / 1e6).toFixed(2)} MB, stored compressed`),
    el('span', {}, `multihead ${trace.description.version || ''}. Self-contained, works offline.`)
  );
}

// All data enter here. `description` and `chunkText` as in trace.js.
function show(description, chunkText, size) {
  current.trace = new Trace(description, chunkText);
  $('title').textContent = document.title = description.title;
  $('model').textContent = description.model;
  const start = description.start || {},
    first = {
      kind: start.kind,
      layer: start.layer || 0,
      head: start.head === undefined ? 0 : start.head,
    };
  if ('layer' in start || 'head' in start) first.view = 'heatmap';
  applyState(current.trace, {...first, ...readHash(location.hash)}, VIEWS);
  return draw().then(() => drawFoot(size()));
}

// The error message from the server's {"error": ...}, or else the plain response.
async function refusal(answer) {
  const text = await answer.text();
  try {
    return new Error(JSON.parse(text).error || text);
  } catch {
    return new Error(`${answer.status} ${text}`);
  }
}

// A page without a trace requests one from its server: POST /translate with the text returns the
// translation and the same description and chunks.
function offerForm() {
  const form = $('ask');
  form.hidden = false;
  $('text').focus();
  form.addEventListener('submit', async event => {
    event.preventDefault();
    const button = form.querySelector('button');
    button.disabled = true;
    try {
      const answer = await fetch('translate', {
        method: 'POST',
        headers: {'Content-Type': 'application/json'},
        body: JSON.stringify({text: $('text').value}),
      });
      if (!answer.ok) throw await refusal(answer);
      const text = await answer.text(),
        {translation, trace, chunks} = JSON.parse(text);
      $('said').textContent = translation || '';
      $('said').hidden = !translation;
      await show(
        trace,
        n => chunks[n],
        () => text.length
      );
    } catch (error) {
      $('said').hidden = true;
      $('view').replaceChildren(el('p', {class: 'note'}, error.message));
    } finally {
      button.disabled = false;
    }
  });
}

addEventListener('hashchange', () => {
  if (!current.trace) return;
  applyState(current.trace, {...LEFT_OUT, ...readHash(location.hash)}, VIEWS);
  draw();
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  if (current.trace) draw();
});

if ($('trace')) {
  show(
    JSON.parse($('trace').textContent),
    n => $(`chunk${n}`).textContent,
    () => document.documentElement.textContent.length
  );
} else {
  offerForm();
}
