# SPDX-License-Identifier: MIT
# What the page is made of, in order: a file may use what the ones before it define.
set(MH_WEB_SCRIPTS
  support.js # elements, numbers, colours
  trace.js   # the data: chunks to weights, words, means
  patterns.js # what a head does, and the clearest one
  state.js   # what is shown, and the address that says so
  export.js  # SVG, PNG, CSV
  overview.js
  heatmap.js
  lines.js
  align.js
  compute.js # a query's attention from q, k and v
  steps.js
  heads.js
  compare.js # two heads, layers or texts
  picture.js # attention over a picture
  choices.js # next-token probabilities, beams
  upload.js  # a picture for the server
  serve.js   # a page that asks its server
  predictions.js # masks, labels, the next token
  intro.js   # which model, what it made of the text
  app.js)
set(MH_WEB_STYLES page.css picture.css)
