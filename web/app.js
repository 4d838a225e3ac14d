// SPDX-License-Identifier: MIT
// The page: tabs, controls, and show(), through which all data enter - from the page itself, or
// from the server it was loaded from. A view is {id, name, render, svg, csv}, and offered(trace) if
// not every trace has it.

const VIEWS = [pictureView, overview, heatmap, lines, align, steps, headsView, compare, choices];
const current = {trace: null, group: null, original: null}; // original: with all heads
let turn = 0; // a view that was started before the latest change is abandoned

const viewsOf = trace => VIEWS.filter(v => !v.offered || v.offered(trace));
const currentMatrix = () => current.group.matrix(state.layer, state.head, state.words);
// Steps computes one head, never the mean of all.
const shownHead = () => (state.view === 'steps' ? Math.max(0, state.head) : state.head);
const headTitle = (group, layer, head) => `${group.name}, ${group.axis} ${layer}, ${headName(head)}`;
const currentTitle = () => headTitle(current.group, state.layer, shownHead());
const countedOptions = n => Array.from({length: n}, (_, i) => [i, String(i)]);

// Changes what is shown. Alignment always shows cross-attention, if there is any.
function go(changes) {
  if ('kind' in changes && changes.kind !== state.kind) changes = {token: -1, ...changes};
  const wanted = {...state, ...served.asked, ...changes};
  if (current.trace.served && (wanted.text !== state.text || wanted.off !== state.off)) {
    if (wanted.text !== state.text) wanted.token = -1;
    return void showServed(wanted).then(shown => shown && writeHash(true));
  }
  if (served.asked) stopAsking();
  const step = STEPS.some(key => wanted[key] !== state[key]);
  apply(wanted);
  writeHash(step);
  draw();
}
function apply(wanted) {
  if (wanted.view === 'align' && current.trace.groups.has('cross')) wanted = {...wanted, kind: 'cross'};
  applyState(current.trace, wanted, viewsOf(current.trace));
}

async function draw() {
  const mine = ++turn,
    host = $('view');
  current.group = current.trace.groups.get(state.kind);
  hideTip();
  drawTabs();
  drawIntroduction();
  drawControls();
  const focused = host.contains(document.activeElement) ? document.activeElement.id : '';
  host.replaceChildren();
  host.setAttribute('aria-label', VIEWS.find(v => v.id === state.view).name);
  host.dataset.ready = '';
  try {
    await VIEWS.find(v => v.id === state.view).render(host, current.trace, () => mine === turn);
    if (mine !== turn) return;
    if (focused && $(focused)) $(focused).focus({preventScroll: true});
    host.dataset.ready = state.view;
  } catch (error) {
    if (mine === turn)
      host.replaceChildren(el('p', {class: 'note'}, `This view failed: ${error.message}`));
    console.error(error);
  }
}

function drawTabs() {
  const tabs = $('tabs'), views = viewsOf(current.trace),
    focused = tabs.contains(document.activeElement);
  tabs.replaceChildren(
    ...views.map((v, i) =>
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
            if (step) go({view: views[(i + step + views.length) % views.length].id});
          },
        },
        v.name
      )
    )
  );
  const selected = tabs.querySelector('[aria-selected=true]');
  if (focused) selected.focus();
  // a narrow window scrolls the tabs: the selected one is in the middle
  tabs.scrollLeft = selected.offsetLeft - tabs.offsetLeft - (tabs.clientWidth - selected.offsetWidth) / 2;
}

const choose = (id, label, options, value, change) =>
  el(
    'label',
    {},
    el('span', {class: 'muted'}, label),
    el(
      'select',
      {id, onchange: e => change(e.target.value)},
      ...options.map(([v, text]) =>
        el('option', {value: String(v), selected: String(v) === String(value), disabled: v === SEVERAL}, text)
      )
    )
  );

// Steps has one head, Lines any number of them.
function chooseHead(group) {
  const several = {steps: [], lines: [[-1, 'all'], [SEVERAL, SEVERAL]]}[state.view] || [[-1, 'mean']];
  const value = state.view === 'lines' && lines.isSeveral() ? SEVERAL : shownHead();
  return choose('head', 'Head', [...several, ...countedOptions(group.heads)], value, v =>
    state.view === 'lines' ? lines.chooseHeads(Number(v)) : go({head: Number(v)}));
}

function drawControls() {
  const {trace, group} = current,
    active = document.activeElement && document.activeElement.id,
    within = views => views.includes(state.view),
    parts = [];
  if (trace.groups.size > 1 && within(['heatmap', 'lines', 'steps', 'heads']))
    parts.push(
      choose('kind', 'Attention', [...trace.groups.values()].map(g => [g.kind, g.shortName]), state.kind,
        v => go({kind: v}))
    );
  if (within(['picture', 'heatmap', 'lines', 'align', 'steps'])) {
    parts.push(
      choose('layer', capitalise(group.axis), countedOptions(group.layers), state.layer, v => go({layer: Number(v)})),
      chooseHead(group)
    );
    if (canDisable(group) && shownHead() >= 0)
      parts.push(offSwitch(group, state.layer, shownHead(),
        isOff(group, state.layer, shownHead()) ? 'Enable this head' : 'Disable this head'));
  }
  if (within(['overview', 'heatmap', 'compare']))
    parts.push(
      choose('shade', 'Colour scale', Object.entries(SHADES).map(([k, s]) => [k, s.name]), state.shade, v => go({shade: v}))
    );
  if (
    (group.queries.mergeable || group.keys.mergeable) &&
    within(['overview', 'heatmap', 'lines', 'align', 'compare'])
  )
    parts.push(
      el('label', {class: 'check'},
        el('input', {type: 'checkbox', id: 'words', checked: state.words, onchange: e => go({words: e.target.checked})}),
        ' whole words')
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

// All data enter here. A page opens with the last layer of its main attention, and the clearest
// head of it, unless the page or the address says something else.
async function show(trace, wanted) {
  const mine = ++turn, start = trace.description.start || {}, first = {kind: start.kind};
  if ('layer' in start || 'head' in start) first.view = 'heatmap';
  const kind = [wanted.kind, start.kind, trace.main].find(k => trace.groups.has(k));
  const group = trace.groups.get(kind), last = group.axis === 'layer' ? group.layers - 1 : 0;
  first.layer = start.layer ?? last;
  if (first.layer < group.layers)
    first.head = start.head ?? ('layer' in start ? -1 : await clearestHead(group, Math.min(wanted.layer ?? first.layer, group.layers - 1)));
  if (pictureView.offered(trace)) Object.assign(first, pictureView.start(trace, start));
  if (mine !== turn) return; // another text came first
  current.trace = trace;
  $('title').textContent = document.title = trace.description.title;
  apply({...first, ...wanted});
  await draw();
  drawFoot();
}

addEventListener('hashchange', () => {
  if (!current.trace) return;
  const wanted = {...state, ...LEFT_OUT, ...readHash(location.hash)};
  if (current.trace.served && !wanted.text) wanted.text = current.trace.served.text;
  const {served: from} = current.trace;
  if (from && (wanted.text !== from.text || wanted.off !== from.off)) {
    showServed(wanted);
    return;
  }
  if (served.asked) stopAsking();
  apply(wanted);
  draw();
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  if (current.trace) draw();
});

if ($('trace')) {
  show(
    new Trace(
      JSON.parse($('trace').textContent),
      n => $(`chunk${n}`).textContent,
      document.documentElement.textContent.length
    ),
    readHash(location.hash)
  ).then(() => writeHash());
} else {
  offerForm();
}
