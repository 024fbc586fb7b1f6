# Gets packages of Debian's and Ubuntu's without installing them. Other scripts source this, with the folder
# for all of it in `made`, and the packages' architecture in `architecture`.
#
# apt gets packages into a folder, and checks the signature of each index and the sum of each package. The
# mirror is the machine's own, or DEBIAN_MIRROR. Packages of Debian's have Ubuntu's keys and its mirror;
# UBUNTU_MIRROR is another.

# Calls apt-get for suite $1, with lists, caches and sources of its own.
private_apt() {
    local own=$made/apt/$1
    mkdir -p "$own/lists/partial" "$own/archives/partial" "$own/none"
    touch "$own/status"
    apt-get -qq -o Dir::Etc::sourcelist="$own/sources.list" \
        -o Dir::Etc::sourceparts="$own/none" -o Dir::Etc::preferences="$own/none/none" \
        -o Dir::Etc::preferencesparts="$own/none" -o Dir::State::status="$own/status" \
        -o Dir::State::lists="$own/lists" -o Dir::Cache="$own" -o Dir::Cache::archives="$own/archives" \
        -o Acquire::Languages=none -o Acquire::Retries=2 -o APT::Architecture="$architecture" \
        -o APT::Architectures::="$architecture" -o APT::Sandbox::User="$(id -un)" "${@:2}"
}

# Gets the index of suite $2 of distribution $1.
index() {
    local distribution=$1 suite=$2 mirror keys also=
    mkdir -p "$made/apt/$suite"
    if [ "$distribution" = debian ]; then
        mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' |
            grep -m 1 '/debian/*$')} || return
        keys=/usr/share/keyrings/debian-archive-keyring.gpg
    else
        ubuntu || return
        mirror=${UBUNTU_MIRROR:-$(sed -n '/amd64/,/;;/s/.*default_mirror \(http.*\)/\1/p' \
            "$made/ubuntu/usr/share/debootstrap/scripts/gutsy" | head -1)}
        keys=$made/ubuntu/usr/share/keyrings/ubuntu-archive-keyring.gpg
    fi
    [ -e "$keys" ] && [ -n "$mirror" ] || return
    # What is the same there is in the other suite alone.
    [ "$suite" != experimental ] || also=sid
    for suite in $suite $also; do
        echo "deb [signed-by=$keys] $mirror $suite main"
    done >"$made/apt/$2/sources.list"
    private_apt "$2" update -o APT::Update::Error-Mode=any
}

# Gets packages of suite $1, and unpacks them into folder $2.
unpack() {
    local suite=$1 into=$2 package
    rm -rf "$made/packages" "$into"
    mkdir -p "$made/packages" "$into"
    (cd "$made/packages" && private_apt "$suite" download -t "$suite" "${@:3}") || return
    for package in "$made"/packages/*.deb; do
        dpkg-deb -x "$package" "$into" || return
    done
}

# Gets what Debian knows of Ubuntu.
ubuntu() {
    [ ! -d "$made/ubuntu" ] || return 0
    index debian trixie && unpack trixie "$made/ubuntu.new" ubuntu-keyring debootstrap &&
        mv "$made/ubuntu.new" "$made/ubuntu"
}
