// SPDX-License-Identifier: MIT
// What a reader should know before looking: which model this is, what it was given and what it made
// of it, and what attention is, in one sentence.

const INTRODUCTIONS = {
  cross: 'To write each word of the translation, every head of every layer decides anew which words of ' +
    'the source to look at.',
  'encoder.self': 'To understand each word, every head of every layer decides which words of the text to ' +
    'look at.',
  'decoder.self': 'To predict the next word, every head of every layer decides which of the words so far to ' +
    'look at.',
  picture: 'To understand a picture, every head of every layer decides for each patch which patches to look at.',
  sound: 'To write each word, every head of every layer decides anew which moments of the sound to listen to.',
  attention: 'Each row (query) spreads its attention over the columns (keys).',
};
const introduction = which =>
  `${INTRODUCTIONS[which]} This is attention: ${
    state.view === 'picture' ? 'more orange' : theme() === 'dark' ? 'brighter' : 'darker'} means more.`;

// "cross.2.0" and "cross.2.1" for readers: the heads of each layer.
function offText(names) {
  const layers = new Map();
  for (const name of names) {
    const [kind, layer, head] = name.split('.');
    const [long] = Object.entries(OFF_NAMES).find(([, short]) => short === kind);
    const key = `${KIND_NAMES[long].toLowerCase()} layer ${layer}`;
    layers.set(key, [...(layers.get(key) || []), head]);
  }
  return [...layers].map(([layer, heads]) => `${layer}, head${heads.length > 1 ? 's' : ''} ${heads.join(', ')}`).join('; ');
}

// Of a model whose name says so: "French to English" of fr-en, "English" of en-lm.
function languagesOf(name) {
  const [, from, to] = name.match(/^(?:.*-)?([a-z]{2})-([a-z]{2})$/) || [];
  const named = code => {
    try {
      const text = new Intl.DisplayNames('en', {type: 'language', fallback: 'none'}).of(code);
      return text === code ? '' : text || '';
    } catch {
      return '';
    }
  };
  if (!from) return '';
  if (to === 'lm') return named(from);
  return named(from) && named(to) ? `${named(from)} to ${named(to)}` : '';
}

function drawIntroduction() {
  const {trace, original} = current, model = served.model;
  const name = (trace && trace.description.model) || (model && model.name) || '';
  const languages = model && model.from && model.to ? `${model.from} to ${model.to}` : languagesOf(name);
  $('model').textContent = [name, languages].filter(part => part).join(', ');
  document.body.classList.toggle('serving', model !== null);
  $('intro').textContent = trace
    ? introduction(trace.description.picture ? 'picture' : trace.readsWords ? trace.main : 'sound')
    : `${servesPictures() ? 'Choose a picture' : 'Type a sentence'} to see what every head of the model attends to.`;
  $('intro').hidden = trace !== null && state.view !== 'overview' && state.view !== 'picture';
  if (!trace) return;
  const off = offNames(), output = trace.readsWords ? trace.output : ''; // a transcript is the title
  $('said').replaceChildren(...(output ? [el('span', {class: 'muted', 'aria-label': trace.groups.has('cross') ? 'translated' : 'continued'}, '→ '), output] : []));
  $('said').hidden = !output;
  drawPredictions(trace, off.length ? original : null);
  $('off').hidden = off.length === 0;
  if (off.length)
    $('off').replaceChildren(
      `Without ${offText(off)}. `,
      original && original.output ? (original.output === output ? `With all heads the ${trace.groups.has('cross') ? 'translation' : 'continuation'} is the same. ` : `With all heads: ${original.output} `) : '',
      el('button', {class: 'plain', onclick: () => go({off: ''})}, 'Enable all heads'));
}

function drawFoot() {
  const {trace} = current;
  $('foot').replaceChildren(
    el('span', {}, 'Every weight of every head is in this page: point at one for its value, and CSV saves those of a view.'),
    el('span', {}, trace.served
      ? 'Computed by the server of this page; nothing is sent elsewhere.'
      : 'The page works offline and sends nothing anywhere.'),
    el('span', {}, `multihead ${trace.description.version || ''}`));
}
