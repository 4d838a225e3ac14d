# SPDX-License-Identifier: MIT
# `multihead info`: the lines are there, the JSON is JSON. The values are this machine's own.
multihead info | cut -c 1-18 | grep -v -e '^CPU   ' -e cache
multihead info --json | check_json | sed -e 's/ cpu / /' -e 's/ l[123]d*_bytes//g'
multihead info --isa scalar --threads 1 | grep -e chosen -e threads
MH_ISA=scalar multihead info | grep chosen
run multihead info extra
run multihead info --isa
run multihead info --threads=-1
multihead info --isa quux 2>&1 | sed 's/one of:.*/one of: .../'
MH_ISA=quux multihead info 2>&1 | sed 's/levels work:.*/levels work: .../'
MH_ISA=quux multihead info 2>/dev/null
echo "exit $?"

# the metadata and the tensors of a file
cp "$(dirname "$script")/../goldens/gguf/llama.gguf" "$(dirname "$script")/../goldens/gguf/blocks.gguf" .
run multihead info llama.gguf
multihead info blocks.gguf | grep ^Q
multihead info --json blocks.gguf | check_json metadata tensors
run multihead info llama.gguf blocks.gguf
run multihead info llama.gguf --measure
