"""A library that starts a thread when it is imported."""
import threading

threading.Thread(target=threading.Event().wait, daemon=True).start()
