# SPDX-License-Identifier: MIT
# What the page is made of, in order: a file may use what the ones before it define.
set(MH_WEB_SCRIPTS
  support.js # elements, numbers, colours
  trace.js   # the data: chunks to weights, words, means
  state.js   # what is shown, and the address that says so
  export.js  # SVG, PNG, CSV
  overview.js
  heatmap.js
  lines.js
  align.js
  compute.js # a query's attention from q, k and v
  steps.js
  heads.js
  app.js)
set(MH_WEB_STYLES page.css)
