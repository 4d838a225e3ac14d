// SPDX-License-Identifier: MIT
// What a reader should know before looking: which model this is, what it was given and what it made
// of it, and what attention is, in one sentence.

const INTRODUCTIONS = {
  cross: 'To write each word of the translation, every head of every layer decides anew which words of ' +
    'the source to look at. That is attention: the stronger a colour, the more of it.',
  'encoder.self': 'To understand each word, every head of every layer decides which words of the text to ' +
    'look at. That is attention: the stronger a colour, the more of it.',
  'decoder.self': 'To predict the next word, every head of every layer decides which of the words so far to ' +
    'look at. That is attention: the stronger a colour, the more of it.',
  picture: 'To understand a picture, every head of every layer decides for each patch which patches to look at. ' +
    'That is attention: the stronger a colour, the more of it.',
  sound: 'To write each word, every head of every layer decides anew which moments of the sound to listen to. ' +
    'That is attention: the stronger a colour, the more of it.',
  attention: 'Each query decides which keys to look at. That is attention: the stronger a colour, the more of it.',
};

// "cross.2.0" for readers.
function offText(name) {
  const [kind, layer, head] = name.split('.');
  const [long] = Object.entries(OFF_NAMES).find(([, short]) => short === kind);
  return `${KIND_NAMES[long].toLowerCase()} layer ${layer}, head ${head}`;
}

function drawIntroduction() {
  const {trace, original} = current, model = served.model;
  const name = (trace && trace.description.model) || (model && model.name) || '';
  const languages = model && model.from && model.to ? `${model.from} to ${model.to}` : '';
  $('model').textContent = [name, languages].filter(part => part).join(', ');
  document.body.classList.toggle('serving', model !== null);
  $('intro').textContent = trace
    ? INTRODUCTIONS[trace.description.picture ? 'picture' : trace.readsWords ? trace.main : 'sound']
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
      `Without ${off.map(offText).join('; ')}. `,
      original && original.output ? (original.output === output ? `With all heads the ${trace.groups.has('cross') ? 'translation' : 'continuation'} is the same. ` : `With all heads: ${original.output} `) : '',
      el('button', {class: 'plain', onclick: () => go({off: ''})}, 'Enable all heads'));
}

function drawFoot() {
  const {trace} = current, {bits} = trace;
  const weights = [...trace.groups.values()].reduce((n, g) => n + g.layers * g.heads * g.rows * g.cols, 0);
  const error = (50 / (2 ** bits - 1)).toPrecision(2);
  $('foot').replaceChildren(
    el('span', {}, `All ${weights.toLocaleString('en')} attention weights of this text are in the page, ` +
      `exact to ${error} % of the largest in their row (${(trace.size / 1e6).toFixed(2)} MB).`),
    el('span', {}, trace.served
      ? 'Computed by the server of this page; nothing is sent elsewhere.'
      : 'The page works offline and sends nothing anywhere.'),
    el('span', {}, `multihead ${trace.description.version || ''}`));
}
