// SPDX-License-Identifier: MIT
// What a served model that does not translate makes of the text: candidates for masks and for the next
// token, labels, or how far the embedding moves; beside what it makes of it with all heads.
// trace.made.predictions: [{name, candidates: [{text, probability}]}], best first.

const PREDICTION_NAMES = {'next token': 'Next token', mask: 'The masked word', label: 'Label'};
const predictionName = name => PREDICTION_NAMES[name] || capitalise(name);
const candidateText = text => tokenText(bareToken(text).trim() || text);

// The text after a candidate; tokens mark the space before them in one of three ways.
const textWith = (text, token) => text + token.replace(/^[▁Ġ]/, ' ');

// What a candidate had with all heads: of those that are not among its five, a bound.
function formerShare(before, text) {
  const known = before.candidates.find(c => c.text === text), least = before.candidates.at(-1);
  return known ? percentText(known.probability) : least ? `under ${percentText(least.probability)}` : '';
}

function predictionCard({name, candidates}, before, text) {
  const row = ({text: token, probability}) => {
    const bar = el('span', {class: 'sum'}), shown = candidateText(token);
    bar.style.width = `${100 * probability}%`;
    return el('li', {}, bar,
      name === 'next token'
        ? el('button', {class: 'plain', title: 'continue with this token', onclick: () => go({text: textWith(text, token)})}, shown)
        : el('span', {lang: ''}, shown),
      before ? el('span', {class: 'was'}, formerShare(before, token)) : null,
      el('span', {}, percentText(probability)));
  };
  const headings = before
    ? el('p', {class: 'headings muted'}, el('span', {class: 'was'}, 'all heads'), el('span', {}, 'now'))
    : null;
  return el('div', {class: 'choice'}, el('h3', {}, predictionName(name)), headings, el('ol', {}, ...candidates.map(row)));
}

// What is said of an embedding: its cosine with that of all heads.
function embeddingNote(made, original) {
  if (!original || !original.made.embedding)
    return 'This model turns a text into an embedding. Disable a head to see how far the embedding moves.';
  const cosine = made.embedding.reduce((sum, x, i) => sum + x * original.made.embedding[i], 0);
  return `The embedding has cosine ${cosine.toFixed(4)} with that of all heads (1: no change).`;
}

function drawPredictions(trace, original) {
  const {made, served: from} = trace, host = $('predicted');
  host.hidden = !made || (!made.predictions.length && !made.embedding);
  if (host.hidden) return;
  const parts = made.predictions.map((p, i) =>
    predictionCard(p, original && original.made.predictions[i], from && from.text));
  if (from && made.continuation !== null && made.continuation.trim())
    parts.push(el('button', {id: 'further', onclick: () => go({text: from.text + made.continuation})}, 'Continue from there'));
  if (made.embedding) parts.push(el('p', {class: 'muted'}, servedTask() === 'fill'
    ? `Write ___ for a word that the model should guess. ${original ? embeddingNote(made, original) : ''}`
    : embeddingNote(made, original)));
  host.replaceChildren(...parts);
}
