(* C9: the refresh model, in which the constant 2 + 1/lambda is a theorem.

   c t u is the cost of step t when the content was last refreshed at the end of step u < t (u = 0: before step 1);
   a refresh costs L. Fresher is never worse: c t is non-increasing in u. Whole numbers: lambda is L / U where the
   dearest step costs U. *)

Require Import List Arith Bool Lia.
Import ListNotations.

(* A schedule says after each step whether to refresh. Steps t, t + 1, ...; last refresh at u. *)
Fixpoint cost (c : nat -> nat -> nat) (L t u : nat) (choices : list bool) : nat :=
  match choices with
  | [] => 0
  | true :: r => c t u + L + cost c L (S t) t r
  | false :: r => c t u + cost c L (S t) u r
  end.

(* The policy: refresh when the cost since the last refresh reaches L. *)
Fixpoint policy (c : nat -> nat -> nat) (L t u since n : nat) : list bool :=
  match n with
  | 0 => []
  | S n' =>
      let now := since + c t u in
      if L <=? now then true :: policy c L (S t) t 0 n' else false :: policy c L (S t) u now n'
  end.

Definition fresher_is_no_worse (c : nat -> nat -> nat) : Prop := forall t u v, u <= v -> v < t -> c t v <= c t u.

Lemma policy_length : forall c L n t u since, length (policy c L t u since n) = n.
Proof.
  induction n as [| n IH]; intros t u since; [ reflexivity |].
  cbn [policy]. destruct (L <=? since + c t u); simpl; now rewrite IH.
Qed.

Section Phases.

Variables (c : nat -> nat -> nat) (L M : nat) (may : nat -> Prop).
Hypothesis positive : 0 < L.
Hypothesis fresher : fresher_is_no_worse c.
(* What may have been spent since a refresh: nothing at first, and never more than M. *)
Hypothesis may_0 : may 0.
Hypothesis may_step : forall s t u, may s -> s < L -> u < t -> may (s + c t u).
Hypothesis may_most : forall s, may s -> s <= M.

(* Where the policy stands: last refresh u, since < L spent on it; and the schedule: last refresh v, and in this phase
   it has paid at least `since` if its content is no fresher, at least L if it has refreshed. A phase costs the policy
   at most M + L, and any schedule at least L. *)
Lemma refresh_phases : forall choices t u v since has,
  u < t -> v < t -> since < L -> may since ->
  (if v <=? u then since <= has else L <= has) ->
  L * (since + cost c L t u (policy c L t u since (length choices)))
  <= (M + L) * (has + cost c L t v choices) + L * L.
Proof.
  induction choices as [| ch r IH]; intros t u v since has Hu Hv Hs Hm Hh.
  - simpl. assert (L * since <= L * L) by (apply Nat.mul_le_mono_l; lia). lia.
  - cbn [length policy].
    pose proof (may_step since t u Hm Hs Hu) as Hm2. pose proof (may_most _ Hm2) as Most.
    assert (Cv : v <= u -> c t u <= c t v) by (intros; apply fresher; lia).
    destruct (L <=? since + c t u) eqn:E.
    + apply Nat.leb_le in E. cbn [cost].
      assert (HP : L <= has + c t v).
      { destruct (v <=? u) eqn:Ev; [ apply Nat.leb_le in Ev; specialize (Cv Ev); lia | lia ]. }
      assert (L * (since + (c t u + L)) <= (M + L) * L) as PA.
      { rewrite (Nat.mul_comm (M + L) L). apply Nat.mul_le_mono_l. lia. }
      apply (Nat.mul_le_mono_l _ _ (M + L)) in HP.
      destruct ch.
      * specialize (IH (S t) t t 0 0 ltac:(lia) ltac:(lia) positive may_0 ltac:(rewrite Nat.leb_refl; lia)). lia.
      * specialize (IH (S t) t v 0 0 ltac:(lia) ltac:(lia) positive may_0).
        assert (v <=? t = true) as Evt by (apply Nat.leb_le; lia). rewrite Evt in IH.
        specialize (IH ltac:(lia)). lia.
    + apply Nat.leb_gt in E. cbn [cost]. destruct ch.
      * specialize (IH (S t) u t (since + c t u) (has + c t v + L) ltac:(lia) ltac:(lia) E Hm2).
        assert (t <=? u = false) as Etu by (apply Nat.leb_gt; lia). rewrite Etu in IH.
        specialize (IH ltac:(lia)). lia.
      * specialize (IH (S t) u v (since + c t u) (has + c t v) ltac:(lia) ltac:(lia) E Hm2).
        assert (if v <=? u then since + c t u <= has + c t v else L <= has + c t v) as H2.
        { destruct (v <=? u) eqn:Ev; [ apply Nat.leb_le in Ev; specialize (Cv Ev); lia | lia ]. }
        specialize (IH H2). lia.
Qed.

Lemma refresh_general : forall choices,
  L * cost c L 1 0 (policy c L 1 0 0 (length choices)) <= (M + L) * cost c L 1 0 choices + L * L.
Proof.
  intros choices.
  pose proof (refresh_phases choices 1 0 0 0 0 ltac:(lia) ltac:(lia) positive may_0 ltac:(simpl; lia)) as H.
  exact H.
Qed.

End Phases.

(* Steps of at most U: against every schedule ALG <= (2 + U/L) OPT + L, where U/L = 1/lambda for U = 1. *)
Theorem refresh_bound : forall c L U choices, 0 < L -> fresher_is_no_worse c -> (forall t u, u < t -> c t u <= U) ->
  L * cost c L 1 0 (policy c L 1 0 0 (length choices)) <= (2 * L + U) * cost c L 1 0 choices + L * L.
Proof.
  intros c L U choices HL F B.
  apply Nat.le_trans with ((L + U + L) * cost c L 1 0 choices + L * L); [| lia ].
  apply (refresh_general c L (L + U) (fun s => s <= L + U)); auto; [ lia |].
  intros s t u _ Hs Hu. specialize (B t u Hu). lia.
Qed.

(* Steps of 0 or D: ALG <= (1 + ceil(lambda)/lambda) OPT + L, with lambda = L/D. *)
Theorem refresh_bound_hard : forall c L D choices, 0 < L -> 0 < D -> fresher_is_no_worse c ->
  (forall t u, u < t -> c t u = 0 \/ c t u = D) ->
  L * cost c L 1 0 (policy c L 1 0 0 (length choices))
  <= (L + (L + D - 1) / D * D) * cost c L 1 0 choices + L * L.
Proof.
  intros c L D choices HL HD F B. set (k := (L + D - 1) / D).
  assert (L <= k * D) as Hk.
  { unfold k. pose proof (Nat.div_mod (L + D - 1) D ltac:(lia)) as E.
    pose proof (Nat.mod_upper_bound (L + D - 1) D ltac:(lia)). lia. }
  pose proof (refresh_general c L (k * D) (fun s => exists j, j <= k /\ s = j * D) HL F) as H.
  assert (H0 : exists j, j <= k /\ 0 = j * D) by (exists 0; lia).
  assert (H1 : forall s t u, (exists j, j <= k /\ s = j * D) -> s < L -> u < t ->
                 exists j, j <= k /\ s + c t u = j * D).
  { intros s t u [j [Hj ->]] Hs Hu. destruct (B t u Hu) as [-> | ->].
    - exists j. split; [ assumption | lia ].
    - exists (S j). split; [| simpl; lia ].
      assert (j * D < k * D) as Hlt by lia. apply Nat.mul_lt_mono_pos_r in Hlt; lia. }
  assert (H2 : forall s, (exists j, j <= k /\ s = j * D) -> s <= k * D)
    by (intros s [j [Hj ->]]; now apply Nat.mul_le_mono_r).
  specialize (H H0 H1 H2 choices). lia.
Qed.

(* ---- The factor is approached ---- *)

(* Phases of L + 1 steps: one that costs nobody anything, L - 1 of cost 1 and one of cost U; from the second step on all
   are free for content refreshed in the phase. *)
Definition tight (L U t u : nat) : nat :=
  let j := (t - 1) mod (L + 1) in
  if u <=? (L + 1) * ((t - 1) / (L + 1)) then if j =? 0 then 0 else if j =? L then U else 1 else 0.

Definition tight_choices (L n : nat) : list bool := concat (repeat (true :: repeat false L) n).

Lemma tight_at : forall L U p j u, j <= L ->
  tight L U (S ((L + 1) * p + j)) u =
  if u <=? (L + 1) * p then if j =? 0 then 0 else if j =? L then U else 1 else 0.
Proof.
  intros L U p j u H. unfold tight.
  replace (S ((L + 1) * p + j) - 1) with (j + p * (L + 1)) by lia.
  rewrite Nat.div_add, Nat.mod_add, Nat.div_small, Nat.mod_small by lia. reflexivity.
Qed.

Lemma tight_fresher : forall L U, fresher_is_no_worse (tight L U).
Proof.
  intros L U t u v H _. unfold tight.
  destruct (Nat.leb_spec u ((L + 1) * ((t - 1) / (L + 1)))), (Nat.leb_spec v ((L + 1) * ((t - 1) / (L + 1)))); lia.
Qed.

Lemma tight_most : forall L U t u, 1 <= U -> tight L U t u <= U.
Proof.
  intros L U t u H. unfold tight. destruct (u <=? _); [| lia ]. destruct (_ =? 0); [ lia |]. destruct (_ =? L); lia.
Qed.

(* The rest of a phase, from its step j on, when the policy has paid j - 1 in it. *)
Lemma tight_rest : forall L U p rest k j, 1 <= L -> 1 <= U -> 1 <= j -> j + k = L ->
  let t := S ((L + 1) * p + j) in
  let u := (L + 1) * p in
  cost (tight L U) L t u (policy (tight L U) L t u (j - 1) (S k + rest)) =
  k + U + L + cost (tight L U) L (S ((L + 1) * S p)) ((L + 1) * S p)
                   (policy (tight L U) L (S ((L + 1) * S p)) ((L + 1) * S p) 0 rest).
Proof.
  intros L U p rest k; induction k as [| k IH]; intros j HL HU Hj E t u; cbn [Nat.add policy].
  - assert (tight L U t u = U) as T.
    { unfold t, u. rewrite tight_at, Nat.leb_refl by lia.
      replace (j =? 0) with false by (symmetry; apply Nat.eqb_neq; lia).
      replace (j =? L) with true by (symmetry; apply Nat.eqb_eq; lia). reflexivity. }
    rewrite T. replace (L <=? j - 1 + U) with true by (symmetry; apply Nat.leb_le; lia).
    cbn [cost]. rewrite T. replace t with ((L + 1) * S p) by (unfold t; lia). lia.
  - assert (tight L U t u = 1) as T.
    { unfold t, u. rewrite tight_at, Nat.leb_refl by lia.
      replace (j =? 0) with false by (symmetry; apply Nat.eqb_neq; lia).
      replace (j =? L) with false by (symmetry; apply Nat.eqb_neq; lia). reflexivity. }
    rewrite T. replace (L <=? j - 1 + 1) with false by (symmetry; apply Nat.leb_gt; lia).
    cbn [cost]. rewrite T.
    specialize (IH (S j) HL HU ltac:(lia) ltac:(lia)). cbn zeta in IH.
    replace (S j - 1) with (j - 1 + 1) in IH by lia.
    replace (S ((L + 1) * p + S j)) with (S t) in IH by (unfold t; lia).
    fold u in IH. cbn [Nat.add policy] in IH. rewrite IH. lia.
Qed.

Lemma tight_policy : forall L U n p, 1 <= L -> 1 <= U ->
  cost (tight L U) L (S ((L + 1) * p)) ((L + 1) * p)
       (policy (tight L U) L (S ((L + 1) * p)) ((L + 1) * p) 0 ((L + 1) * n)) = n * (2 * L - 1 + U).
Proof.
  intros L U n; induction n as [| n IH]; intros p HL HU.
  - rewrite Nat.mul_0_r. reflexivity.
  - replace ((L + 1) * S n) with (S (S (L - 1) + (L + 1) * n)) by lia. cbn [policy].
    assert (tight L U (S ((L + 1) * p)) ((L + 1) * p) = 0) as T.
    { replace (S ((L + 1) * p)) with (S ((L + 1) * p + 0)) by lia. now rewrite tight_at, Nat.leb_refl by lia. }
    rewrite T. replace (L <=? 0 + 0) with false by (symmetry; apply Nat.leb_gt; lia).
    cbn [cost]. rewrite T.
    pose proof (tight_rest L U p ((L + 1) * n) (L - 1) 1 HL HU ltac:(lia) ltac:(lia)) as R. cbn zeta in R.
    replace (S ((L + 1) * p + 1)) with (S (S ((L + 1) * p))) in R by lia.
    cbn [Nat.sub] in R. cbn [Nat.add] in *. rewrite R, IH by assumption. lia.
Qed.

Lemma tight_idle : forall L U p r k j, j + k = L + 1 -> 1 <= j ->
  cost (tight L U) L (S ((L + 1) * p + j)) (S ((L + 1) * p)) (repeat false k ++ r) =
  cost (tight L U) L (S ((L + 1) * S p)) (S ((L + 1) * p)) r.
Proof.
  intros L U p r k; induction k as [| k IH]; intros j E Hj.
  - simpl repeat. cbn [app]. do 2 f_equal. lia.
  - cbn [repeat app cost]. rewrite tight_at by lia.
    replace (S ((L + 1) * p) <=? (L + 1) * p) with false by (symmetry; apply Nat.leb_gt; lia).
    replace (S (S ((L + 1) * p + j))) with (S ((L + 1) * p + S j)) by lia. rewrite IH by lia. reflexivity.
Qed.

Lemma tight_schedule : forall L U n p u, u <= (L + 1) * p ->
  cost (tight L U) L (S ((L + 1) * p)) u (tight_choices L n) = n * L.
Proof.
  intros L U n; induction n as [| n IH]; intros p u Hu; [ reflexivity |].
  unfold tight_choices in *. cbn [repeat concat app cost].
  assert (tight L U (S ((L + 1) * p)) u = 0) as T.
  { replace (S ((L + 1) * p)) with (S ((L + 1) * p + 0)) by lia. rewrite tight_at by lia. now destruct (u <=? _). }
  rewrite T. replace (S (S ((L + 1) * p))) with (S ((L + 1) * p + 1)) by lia.
  rewrite tight_idle by lia. rewrite IH by lia. lia.
Qed.

Lemma tight_length : forall L n, length (tight_choices L n) = (L + 1) * n.
Proof.
  intros L n; unfold tight_choices; induction n as [| n IH]; [ simpl; lia |].
  cbn [repeat concat app length]. rewrite app_length, repeat_length, IH. lia.
Qed.

(* n phases: the policy pays n (2 L - 1 + U), some schedule n L. With L and U large, L / U = lambda, the ratio tends to
   2 + 1/lambda. *)
Theorem refresh_tight : forall L U n, 1 <= L -> 1 <= U ->
  fresher_is_no_worse (tight L U) /\ (forall t u, u < t -> tight L U t u <= U) /\
  cost (tight L U) L 1 0 (policy (tight L U) L 1 0 0 (length (tight_choices L n))) = n * (2 * L - 1 + U) /\
  cost (tight L U) L 1 0 (tight_choices L n) = n * L.
Proof.
  intros L U n HL HU. split; [ apply tight_fresher |]. split; [ intros; now apply tight_most |].
  rewrite tight_length. split.
  - pose proof (tight_policy L U n 0 HL HU) as H. now rewrite Nat.mul_0_r in H.
  - pose proof (tight_schedule L U n 0 0 ltac:(lia)) as H. now rewrite Nat.mul_0_r in H.
Qed.
