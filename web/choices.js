// SPDX-License-Identifier: MIT
// Choices: the likeliest tokens at each step of a decoder, and the hypotheses of its search.
// description.choices: {count: K, tokens: (T * K), probabilities: (T * K), chosen: (T)}, best first;
// description.hypotheses: [{text, score}], best first.

const choices = {
  id: 'choices',
  name: 'Choices',
  offered: trace => Boolean(trace.description.choices || trace.description.hypotheses),

  async render(host, trace) {
    const {hypotheses} = trace.description;
    if (hypotheses && hypotheses.length) host.append(this.beams(hypotheses));
    if (trace.description.choices) host.append(this.tokens(trace));
  },

  beams(hypotheses) {
    const best = hypotheses[0].score;
    return el('section', {class: 'card'},
      el('h2', {}, 'Hypotheses of the beam search'),
      el('p', {class: 'muted'}, 'The search keeps several translations at once and returns the one with the ' +
        'highest score: the mean log-probability of its tokens.'),
      el('ol', {class: 'beams'}, ...hypotheses.map(h => {
        const bar = el('span', {class: 'weightbar'});
        bar.style.width = `${Math.max(1, 100 * Math.exp(h.score - best))}%`;
        return el('li', {}, el('span', {class: 'muted'}, h.score.toFixed(3)), el('span', {class: 'barbox'}, bar),
          el('span', {class: 'hypothesis', lang: ''}, h.text));
      })));
  },

  tokens(trace) {
    const {rows, chosen} = this.read(trace), names = this.names(trace);
    const {bare: tokens} = trace.groups.get(trace.main).queries, ahead = trace.groups.has('cross') ? 0 : 1;
    const candidate = (token, p, own) => {
      const bar = el('span', {class: 'sum'});
      bar.style.width = `${100 * p}%`;
      return el('li', {class: own ? 'own' : ''}, bar, el('span', {}, choiceText(token)), el('span', {}, shareText(p)));
    };
    return el('section', {class: 'card'},
      el('h2', {}, trace.groups.has('cross') ? 'Next token: what else could have been written' : 'Next token: what the model expected'),
      el('p', {class: 'muted'}, 'At each step the decoder gives every token of its vocabulary a probability. ' +
        (trace.groups.has('cross') ? 'These are the likeliest ones; the one that was written is marked.'
          : 'These are what the model expected next; the actual word is marked.')),
      el('div', {class: 'choices'}, ...rows.map((row, t) => {
        const own = this.chosenOf(row, chosen[t], tokens[t + ahead]);
        return el('div', {class: 'choice'},
          el('h3', {}, names[t], ' ', chosen[t] > 0 ? el('span', {class: 'muted'}, shareText(chosen[t])) : null),
          el('ol', {}, ...(own && !row.includes(own) ? [...row, own] : row).map(one => candidate(...one, one === own))));
      })));
  },
  // The token that was chosen, or that the text has, also if it is not one of the likeliest. It has its
  // probability; of several that are as unlikely it is the one of this text.
  chosenOf(row, p, token) {
    const same = row.filter(([, q]) => Math.abs(p - q) < 1e-9);
    if (p === 0 || token === undefined) return null;
    if (same.length === 1 && p > 1.5e-6) return same[0];
    return same.find(([text]) => choiceText(text) === choiceText(token)) || [token, p];
  },
  // Probabilities are stored in millionths.
  read(trace) {
    const {count, tokens, probabilities, chosen} = trace.description.choices;
    return {
      rows: chosen.map((_, t) => tokens.slice(t * count, (t + 1) * count)
        .map((token, k) => [token, probabilities[t * count + k] / 1e6])),
      chosen: chosen.map(p => p / 1e6),
    };
  },
  // A row of cross-attention is the token that was chosen there; a causal model chooses the next one.
  names(trace) {
    const names = trace.groups.get(trace.main).queries.bare.map(choiceText);
    return trace.groups.has('cross') ? names : names.map(name => `after “${name}”`);
  },

  table() {
    const {trace} = current, {choices: c, hypotheses = []} = trace.description, names = c ? this.names(trace) : [];
    return [['step', 'token', 'rank', 'candidate', 'value'],
      ...hypotheses.map((h, i) => ['', '', i, h.text, h.score]),
      ...(c ? this.read(trace).rows.flatMap((row, t) =>
        row.map(([token, p], k) => [t, names[t], k, choiceText(token), p])) : [])];
  },
  svg: async () => tableSvg('Choices', choices.table().map(row => row.map(x => (typeof x === 'number' ? numberText(x) : x)))),
  csv: async () => csvOf(choices.table()),
};
const choiceText = token => tokenText(isSpecial(token) ? token : bareToken(token) || ' ');
