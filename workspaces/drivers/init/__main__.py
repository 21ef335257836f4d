"""What an archive of the init runs (`../program_archive.py`)."""

from init.program import main

if __name__ == "__main__":  # `docker/bundle.py` imports this under another name
    main()
