"""The life of an action: submitted, judged, decided, used and over; and what belongs to it."""
