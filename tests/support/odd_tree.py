"""A script that fills /workspace with a thousand entries of every kind: what a move has to bring along unchanged."""

ENTRIES = 1_000
SCRIPT = r"""
import os
for number in range(31):
    folder = f'src/{number}'
    os.makedirs(folder)
    for name in range(30):
        with open(f'{folder}/{name}', 'w') as file:
            file.write(f'{number} {name}\n' * (name + 1))
os.makedirs(b'odd/caf\xe9 \xff')
for name in (b'a\nb', b'-rf', b' ', b'*', b'caf\xe9', 'z\u0301\u202e'.encode(), b'x' * 255):
    open(b'odd/' + name, 'wb').close()
for number in range(10):
    os.link('src/0/1', f'odd/link {number}')
os.symlink('../src/0/1', 'odd/soft')
os.symlink('/nowhere', 'odd/broken')
with open('odd/holes', 'wb') as file:
    for at in range(0, 40 << 20, 8 << 20):
        file.seek(at)
        file.write(b'data')
    file.truncate(64 << 20)
os.setxattr('src/0/2', 'user.kept', b'\x00\xff')
os.setxattr('odd', 'user.of a folder', b'yes')
os.chmod('src/0/3', 0o4751)
os.chmod('src/0/4', 0o000)
os.makedirs('locked/inside')
os.chmod('locked', 0o500)
os.mkfifo('odd/pipe')
os.utime('src/0/5', ns=(1, 1_234_567_890_123_456_789))
os.makedirs('/'.join(['deep'] * 40))
"""
COMMAND = f"cat > /tmp/odd.py <<'PY'\n{SCRIPT}\nPY\npython3 /tmp/odd.py"
