"""The authors' files, what the paper prints, and the claims."""
