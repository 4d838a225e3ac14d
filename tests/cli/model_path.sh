# SPDX-License-Identifier: MIT
# Which model -m names: a path, a name, the default, and what is said where there is none.
mkdir -p prefix/bin prefix/share/multihead/models/installed other/mine models/here run empty/bin
for directory in prefix/share/multihead/models/installed other/mine models/here run; do
    make_model $directory 5
done
cp "$(command -v multihead)" prefix/bin # as installed there: it finds its own share
cp "$(command -v multihead)" empty/bin

# Messages name directories of this machine: HERE is the test's own, PREFIX the configured one, where
# there may be models, too.
ask() {
    echo "\$ $*"
    "$@" --beam 1 --max-length-factor 0 "le chat" 2>&1 |
        sed "s|$PWD|HERE|g; s|, /[^ ,;]*/share/multihead/models/[^ ,]*||g
             s|, /[^ ;]*/share/multihead/models|, PREFIX/share/multihead/models|"
}
ask prefix/bin/multihead translate -m run
ask prefix/bin/multihead translate -m here
ask prefix/bin/multihead translate -m installed
ask prefix/bin/multihead translate -m mine
MULTIHEAD_MODELS=nowhere::other ask prefix/bin/multihead translate -m mine
MULTIHEAD_MODELS=nowhere:other/ ask prefix/bin/multihead translate -m none
ask prefix/bin/multihead translate -m ./here
ask prefix/bin/multihead translate -m run/model.safetensors
run multihead serve -m run/model.safetensors
run multihead serve -m models/none

# Hugging Face's cache: the newest snapshot that has a config.json
snapshots=hf/hub/models--org--name/snapshots
mkdir -p $snapshots/incomplete
cp -r run $snapshots/old
cp -r run $snapshots/new
echo '{}' >$snapshots/old/config.json
touch -d 2020-01-01 $snapshots/old
HF_HOME=hf ask prefix/bin/multihead translate -m org/name
HF_HOME=hf ask prefix/bin/multihead translate -m org/none
HF_HOME=hf ask prefix/bin/multihead translate -m ./org/name

# Of two with the same name, the one that is looked for first.
mkdir models/installed
echo '{}' >models/installed/config.json
ask prefix/bin/multihead translate -m installed

# The default
installed=$(empty/bin/multihead translate -m none x 2>&1 |
    sed -n 's|.*, \(/[^ ]*/share/multihead/models\)$|\1|p')
rm -r models
if [ -e "$installed/fr-en" ]; then # then that one is found, as it should be
    empty/bin/multihead translate "Merci beaucoup." | grep -qx "Thank you very much." &&
        sed -n '/^\$ empty.* translate$/,$p' "$expected"
else
    ask empty/bin/multihead translate
    mkdir empty/share empty/share/multihead
    cp -r "$(dirname "$script")/../../models" empty/share/multihead/models
    empty/bin/multihead translate "Merci beaucoup."
fi
